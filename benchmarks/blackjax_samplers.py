"""BlackJAX's samplers for latent Gaussian models on a target of pmgp's: 64 bits, one thread, compiled loops."""

from __future__ import annotations

import os

# One thread, as the other side of the comparison; XLA reads this when it starts.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc import elliptical_slice, marginal_latent_gaussian
from jax.scipy.special import gammaln, log_ndtr

from pmgp.core.likelihoods import BernoulliLogit, Likelihood, LogGaussianCox, OrdinalProbit, StochasticVolatility

__all__ = ["SAMPLERS", "EllipticalSlice", "MarginalGradient", "Timed"]

jax.config.update("jax_enable_x64", True)

# Beyond this many standard deviations a limit of an ordinal category is as good as infinite.
FAR = 1e6
RECOMMENDED_ACCEPTANCE = 0.5
TUNING = 2_000


class Timed(NamedTuple):
    """Draws of shape (draws, n), the seconds they took, and the rate of acceptance."""

    draws: np.ndarray
    seconds: float
    acceptance: float


def _logit(likelihood: BernoulliLogit) -> Callable[[jax.Array], jax.Array]:
    sign = jnp.asarray(likelihood.sign)
    return lambda f: -jnp.logaddexp(0.0, -sign * f).sum()


def _cox(likelihood: LogGaussianCox) -> Callable[[jax.Array], jax.Array]:
    y, log_exposure = jnp.asarray(likelihood.y), jnp.asarray(likelihood.log_exposure)
    constant = (y * log_exposure - gammaln(y + 1.0)).sum()
    return lambda f: constant + (y * f - jnp.exp(f + log_exposure)).sum()


def _volatility(likelihood: StochasticVolatility) -> Callable[[jax.Array], jax.Array]:
    log_square = jnp.asarray(likelihood.log_square)
    constant = -0.5 * np.log(2.0 * np.pi) * log_square.size
    return lambda f: constant - (f + 0.5 * jnp.exp(log_square - 2.0 * f)).sum()


def _ordinal(likelihood: OrdinalProbit) -> Callable[[jax.Array], jax.Array]:
    lower, upper, noise = (jnp.asarray(a) for a in (likelihood.lower, likelihood.upper, likelihood.noise))

    def log_likelihood(f: jax.Array) -> jax.Array:
        low, high = jnp.clip((lower - f) / noise, -FAR, FAR), jnp.clip((upper - f) / noise, -FAR, FAR)
        # Reflected into the lower tail, where logarithms of tail probabilities do not cancel.
        reflect = low + high > 0.0
        low, high = jnp.where(reflect, -high, low), jnp.where(reflect, -low, high)
        log_high = log_ndtr(high)
        return (log_high + jnp.log1p(-jnp.exp(log_ndtr(low) - log_high))).sum()

    return log_likelihood


TRANSLATED: dict[type, Callable[[Any], Callable[[jax.Array], jax.Array]]] = {
    BernoulliLogit: _logit,
    LogGaussianCox: _cox,
    StochasticVolatility: _volatility,
    OrdinalProbit: _ordinal,
}


def translate(likelihood: Likelihood, f: np.ndarray) -> Callable[[jax.Array], jax.Array]:
    """Write the likelihood in JAX, and see that it has the same value at f.

    Raises
    ------
    RuntimeError
        If it does not: the two sides would not have the same target.
    """
    translated = TRANSLATED[type(likelihood)](likelihood)
    ours, theirs = float(likelihood.log_likelihood(f)), float(translated(jnp.asarray(f)))
    if not np.isclose(ours, theirs, rtol=1e-9, atol=1e-9):
        raise RuntimeError(f"log-likelihoods differ: {ours} here, {theirs} in JAX")
    return translated


class EllipticalSlice:
    """`blackjax.elliptical_slice`.

    Parameters
    ----------
    covariance : (n, n) array
        The prior mean is zero.
    likelihood : Likelihood
    f : (n,) array
        Where the chain starts.
    """

    name = "BlackJAX elliptical_slice"

    def __init__(self, covariance: np.ndarray, likelihood: Likelihood, f: np.ndarray) -> None:
        log_likelihood = translate(likelihood, f)
        kernel = elliptical_slice.build_kernel(jnp.asarray(covariance), jnp.zeros(len(f)))
        self.state = elliptical_slice.init(jnp.asarray(f), log_likelihood)
        self._run = jax.jit(
            partial(_scan, lambda key, state, _: kernel(key, state, log_likelihood)), static_argnums=(3, 4)
        )

    def tune(self, key: jax.Array) -> float:
        """Nothing is tuned; the chain runs in."""
        self.state = self._run(key, self.state, 0.0, 1, TUNING)[0]
        return 0.0

    def run(self, key: jax.Array, parameter: float, thin: int, draws: int) -> Timed:
        """Keep every `thin`-th of thin x draws transitions; compilation is not in the time."""
        return _timed(self._run, key, self.state, parameter, thin, draws)


class MarginalGradient:
    """`blackjax.mgrad_gaussian`, its step size tuned to the recommended rate of acceptance.

    Parameters
    ----------
    covariance : (n, n) array
        The prior mean is zero.
    likelihood : Likelihood
    f : (n,) array
        Where the chain starts.
    """

    name = "BlackJAX mgrad_gaussian"

    def __init__(self, covariance: np.ndarray, likelihood: Likelihood, f: np.ndarray) -> None:
        log_likelihood = translate(likelihood, f)
        decomposition = marginal_latent_gaussian.svd_from_covariance(jnp.asarray(covariance))
        kernel = marginal_latent_gaussian.build_kernel(decomposition)
        self.state = marginal_latent_gaussian.init(jnp.asarray(f), log_likelihood, decomposition.U_t)

        def step(key: jax.Array, state: Any, delta: float) -> Any:
            return kernel(key, state, log_likelihood, delta)

        self._run = jax.jit(partial(_scan, step), static_argnums=(3, 4))
        self._tune = jax.jit(partial(_adapt, step))

    def tune(self, key: jax.Array) -> float:
        """Learn the step size while the chain runs in."""
        self.state, delta = self._tune(key, self.state)
        return float(delta)

    def run(self, key: jax.Array, parameter: float, thin: int, draws: int) -> Timed:
        """Keep every `thin`-th of thin x draws transitions; compilation is not in the time."""
        return _timed(self._run, key, self.state, parameter, thin, draws)


SAMPLERS = (EllipticalSlice, MarginalGradient)


def _scan(step: Callable[..., Any], key: jax.Array, state: Any, parameter: float, thin: int, draws: int) -> Any:
    def one(state: Any, key: jax.Array) -> tuple[Any, jax.Array]:
        state, info = step(key, state, parameter)
        return state, getattr(info, "acceptance_rate", jnp.ones(()))

    def kept(state: Any, key: jax.Array) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        state, rates = jax.lax.scan(one, state, jax.random.split(key, thin))
        return state, (state.position, rates.mean())

    state, (positions, rates) = jax.lax.scan(kept, state, jax.random.split(key, draws))
    return state, positions, rates.mean()


def _adapt(step: Callable[..., Any], key: jax.Array, state: Any) -> tuple[Any, jax.Array]:
    """Robbins-Monro on the log of delta; the average of the second half is kept."""

    def one(carry: tuple[Any, jax.Array], inputs: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        state, log_delta = carry
        key, iteration = inputs
        state, info = step(key, state, jnp.exp(log_delta))
        log_delta += 3.0 * iteration**-0.6 * (info.acceptance_rate - RECOMMENDED_ACCEPTANCE)
        return (state, log_delta), log_delta

    inputs = jax.random.split(key, TUNING), jnp.arange(1.0, TUNING + 1.0)
    (state, _), path = jax.lax.scan(one, (state, jnp.zeros(())), inputs)
    return state, jnp.exp(path[TUNING // 2 :].mean())


def _timed(run: Callable[..., Any], key: jax.Array, state: Any, parameter: float, thin: int, draws: int) -> Timed:
    compiled = run.lower(key, state, parameter, thin, draws).compile()
    start = perf_counter()
    _, positions, rate = jax.block_until_ready(compiled(key, state, parameter))
    return Timed(np.asarray(positions), perf_counter() - start, float(rate))
