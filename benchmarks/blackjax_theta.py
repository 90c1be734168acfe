"""BlackJAX's samplers with hyper-parameters, on the posterior of a problem: 64 bits, one thread, compiled loops.

`laplace_hmc` is HMC on Laplace's evidence, whose draws have that approximation's error. `mgrad_gaussian` moves f given
theta, with a singular value decomposition of K for every theta; beside it BlackJAX's random walk moves theta with the
whitened f fixed, which is what Ancillary does here. The model is written in JAX, as `problems.Problem.model` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any, NamedTuple

import arviz as az
import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from blackjax.mcmc import marginal_latent_gaussian
from jax.scipy.special import gammaln, log_ndtr
from jax.scipy.stats import gamma

from benchmarks.problems import Problem
from benchmarks.samplers import CHAINS

__all__ = ["Target", "laplace_hmc", "latent_gaussian"]

jax.config.update("jax_enable_x64", True)

# What pymc.gp.Latent adds to the diagonal.
JITTER = 1e-6
LEAPFROG = 4
LBFGS_ITERATIONS = 100
WALK_ACCEPTANCE, LATENT_ACCEPTANCE = 0.25, 0.5

Draw = Callable[[int, int, int], tuple[float, xr.DataTree]]


class Target:
    """The joint density of a problem: theta is log-length-scales and log-variance, nu the whitened latent values.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.X, self.y = jnp.asarray(problem.X), jnp.asarray(problem.y)
        self.n, d = problem.X.shape
        self.lengthscales = d if problem.kernel == "ard" else 1
        self.rate = 1.0 / np.sqrt(d)
        self.log_likelihood = {"probit": self._probit, "poisson": self._poisson}[problem.likelihood]
        means = [np.log(1.0 / self.rate)] * self.lengthscales + [np.log(1.1 / 0.1)]
        self.start = jnp.asarray(means)

    def covariance(self, theta: jax.Array) -> jax.Array:
        """K(theta), with the jitter."""
        scaled = self.X / jnp.exp(theta[:-1])
        squared = jnp.square(scaled[:, None] - scaled).sum(axis=-1)
        return jnp.exp(theta[-1] - 0.5 * squared) + JITTER * jnp.eye(self.n)

    def log_prior(self, theta: jax.Array) -> jax.Array:
        """Return log p(theta), on its unconstrained scale."""
        lengthscales, variance = jnp.exp(theta[:-1]), jnp.exp(theta[-1])
        priors = gamma.logpdf(lengthscales, 1.0, scale=1.0 / self.rate).sum() + gamma.logpdf(variance, 1.1, scale=10.0)
        return priors + theta.sum()

    def joint(self, nu: jax.Array, theta: jax.Array) -> jax.Array:
        """log p(y, nu, theta)."""
        f = jnp.linalg.cholesky(self.covariance(theta)) @ nu
        return self.log_prior(theta) + self.log_likelihood(f) - 0.5 * (nu @ nu + self.n * jnp.log(2.0 * jnp.pi))

    def _probit(self, f: jax.Array) -> jax.Array:
        return log_ndtr(jnp.where(self.y == 1, f, -f)).sum()

    def _poisson(self, f: jax.Array) -> jax.Array:
        return (self.y * f - jnp.exp(f) - gammaln(self.y + 1.0)).sum()


class _Gibbs(NamedTuple):
    """A state of the chain of two moves: what they have learned, and K's decomposition at theta."""

    theta: jax.Array
    f: jax.Array
    factor: jax.Array
    decomposition: Any
    log_walk: jax.Array
    log_delta: jax.Array


def laplace_hmc(problem: Problem) -> Draw:
    """HMC on Laplace's evidence, step size and masses by BlackJAX's window adaptation; **not exact**."""
    target = Target(problem)
    settings = {"num_integration_steps": LEAPFROG}
    optimizer = {"maxiter": LBFGS_ITERATIONS}

    def chain(key: jax.Array, start: jax.Array, tune: int, draws: int) -> jax.Array:
        laplace = blackjax.mcmc.laplace_marginal.laplace_marginal_factory(
            target.joint, jnp.zeros(target.n), **optimizer
        )
        keys = jax.random.split(key, 2)
        warmup = blackjax.window_adaptation(blackjax.hmc, lambda theta: laplace(theta)[0], **settings)
        (adapted, parameters), _ = warmup.run(keys[0], start, num_steps=tune)
        sampler = blackjax.laplace_hmc(target.joint, jnp.zeros(target.n), **parameters, **optimizer)
        _, thetas = jax.lax.scan(
            lambda state, key: _with_position(sampler.step(key, state)[0]),
            sampler.init(adapted.position),
            jax.random.split(keys[1], draws),
        )
        return thetas

    return _sampler(target, chain)


def latent_gaussian(problem: Problem) -> Draw:
    """`mgrad_gaussian` for f, and a random walk of theta given the whitened f."""
    target = Target(problem)

    def step(state: _Gibbs, key: jax.Array, gain: Any) -> tuple[_Gibbs, jax.Array]:
        first, second = jax.random.split(key)
        state = _move_theta(target, state, first, gain)
        kernel = marginal_latent_gaussian.build_kernel(state.decomposition)
        latent = marginal_latent_gaussian.init(state.f, target.log_likelihood, state.decomposition.U_t)
        latent, info = kernel(second, latent, target.log_likelihood, jnp.exp(state.log_delta))
        log_delta = state.log_delta + gain * (info.acceptance_rate - LATENT_ACCEPTANCE)
        return state._replace(f=latent.position, log_delta=log_delta), state.theta

    def chain(key: jax.Array, start: jax.Array, tune: int, draws: int) -> jax.Array:
        keys = jax.random.split(key, tune + draws)
        gains = jnp.where(jnp.arange(tune + draws) < tune, 3.0 * jnp.arange(1.0, tune + draws + 1.0) ** -0.6, 0.0)
        factor, decomposition = _decomposed(target, start)
        state = _Gibbs(start, jnp.zeros(target.n), factor, decomposition, jnp.zeros(()), jnp.zeros(()))
        _, thetas = jax.lax.scan(lambda state, given: step(state, *given), state, (keys, gains))
        return thetas[tune:]

    return _sampler(target, chain)


def _decomposed(target: Target, theta: jax.Array) -> tuple[jax.Array, Any]:
    covariance = target.covariance(theta)
    return jnp.linalg.cholesky(covariance), marginal_latent_gaussian.svd_from_covariance(covariance)


def _move_theta(target: Target, state: _Gibbs, key: jax.Array, gain: Any) -> _Gibbs:
    """BlackJAX's random walk given nu, and what it learns; f moves along."""
    nu = jax.scipy.linalg.solve_triangular(state.factor, state.f, lower=True)
    scale = jnp.exp(state.log_walk)
    walk = blackjax.normal_random_walk(lambda theta: target.joint(nu, theta), scale * jnp.ones(len(state.theta)))
    moved, info = walk.step(key, walk.init(state.theta))
    factor, decomposition = jax.lax.cond(
        info.is_accepted,
        lambda: _decomposed(target, moved.position),
        lambda: (state.factor, state.decomposition),
    )
    log_walk = state.log_walk + gain * (info.acceptance_rate - WALK_ACCEPTANCE)
    return state._replace(
        theta=moved.position, f=factor @ nu, factor=factor, decomposition=decomposition, log_walk=log_walk
    )


def _with_position(state: Any) -> tuple[Any, jax.Array]:
    return state, state.position


def _sampler(target: Target, chain: Callable[..., jax.Array]) -> Draw:
    """From tuning iterations, draws and a seed to processor seconds, compilation apart, and draws."""

    def sampled(tune: int, draws: int, seed: int) -> tuple[float, xr.DataTree]:
        keys = jax.random.split(jax.random.key(seed), 2 * CHAINS)
        run = jax.jit(chain, static_argnums=(2, 3)).lower(keys[0], target.start, tune, draws).compile()
        # PyMC's NUTS and nutpie start as far from the initial point.
        starts = [target.start + jax.random.uniform(key, target.start.shape, minval=-1.0) for key in keys[CHAINS:]]
        begin = process_time()
        thetas = [np.asarray(run(key, start)) for key, start in zip(keys[:CHAINS], starts, strict=True)]
        seconds = process_time() - begin
        return seconds, _posterior(np.stack(thetas))

    return sampled


def _posterior(thetas: np.ndarray) -> xr.DataTree:
    """Return draws made of (chain, draw, dimension) values on the unconstrained scale."""
    values = np.exp(thetas)
    lengthscale = values[..., :-1] if values.shape[-1] > 2 else values[..., 0]
    named = {"lengthscale": lengthscale, "variance": values[..., -1]}
    return xr.DataTree.from_dict({"posterior": az.convert_to_dataset(named)})
