"""Geweke's joint distribution test (2004) for a scheme on theta.

Alternate one step of the chain given y with a fresh y given f. Then theta and f must keep their prior distribution:
a chain that does not leave p(theta, f|y) invariant drifts away from it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from pmgp.core.approximations import Approximation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.proposals import AdaptiveProposal
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain

DEFAULT = Laplace()


@dataclass
class ToyModel:
    """A squared exponential process at six points, theta = (log length-scale, log variance), both normal."""

    y: np.ndarray
    x = np.linspace(-1.5, 1.5, 6)
    prior_mean = np.array([0.0, 1.2])
    prior_scale = np.array([0.5, 0.7])

    def log_prior(self, theta: np.ndarray) -> float:
        return -0.5 * float(np.square((theta - self.prior_mean) / self.prior_scale).sum())

    def prior(self, theta: np.ndarray) -> DensePrior:
        lengthscale, variance = np.exp(theta)
        squared = np.square(self.x[:, None] - self.x) / lengthscale**2
        covariance = variance * np.exp(-0.5 * squared) + 1e-3 * np.eye(6)
        return DensePrior(np.full(6, 0.4), np.asfortranarray(covariance))

    def likelihood(self, theta: np.ndarray) -> BernoulliProbit:
        return BernoulliProbit(self.y)


def proposal() -> AdaptiveProposal:
    """Half random walk, half an independence t that is deliberately off."""
    return AdaptiveProposal(
        2,
        independence=0.5,
        log_scale=np.log(1.2),
        location=np.array([0.3, 1.0]),
        factor=np.array([[0.5, 0.0], [0.1, 0.6]]),
    )


def statistics(theta: np.ndarray, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """First and second moments of theta, and moments of f that tie it to theta and y."""
    size = f @ f / 6
    return np.array([*theta, *theta**2, theta[0] * theta[1], f.mean(), size, f[0] * f[5], theta[1] * size, y @ f])


def prior_statistics(draws: int, seed: int) -> np.ndarray:
    """The marginal-conditional simulator: independent draws of the statistics."""
    rng = np.random.default_rng(seed)
    model = ToyModel(np.zeros(6, dtype=int))
    rows = np.empty((draws, 10))
    for index in range(draws):
        theta = model.prior_mean + model.prior_scale * rng.standard_normal(2)
        f = model.prior(theta).sample(rng, 1)[0]
        rows[index] = statistics(theta, f, (rng.uniform(size=6) < ndtr(f)).astype(int))
    return rows


def chain_statistics(
    scheme: PseudoMarginalChain,
    steps: int,
    seed: int,
    use_latent: bool = False,
    approximation: Approximation = DEFAULT,
) -> np.ndarray:
    """The successive-conditional simulator.

    Parameters
    ----------
    use_latent : bool
        Collect the statistics of the trace's copy of f instead of the retained particle's.
    approximation : Approximation
        Where q is poor, as without sweeps of moment matching, errors in how particles are kept weigh more.
    """
    rng = np.random.default_rng(seed)
    model = ToyModel(np.array([0, 1, 1, 0, 1, 1]))
    evaluate = Evaluator(model, approximation)
    frozen = Frozen(proposal(), None, getattr(scheme.estimator, "draws", None))
    current = evaluate.prepare(evaluate(model.prior_mean, None))
    state = scheme.init(rng, current, frozen)
    rows = np.empty((steps, 10))
    for index in range(steps):
        state, current, info = scheme.step(rng, state, current, evaluate, frozen)
        rows[index] = statistics(state.theta, info.latent if use_latent else state.particle, model.y)
        model.y = (rng.uniform(size=6) < ndtr(state.particle)).astype(int)
        current = evaluate.prepare(evaluate(state.theta, None))
        state = scheme.refresh(rng, state, current, frozen)
    return rows


def largest_z_score(chain: np.ndarray, independent: np.ndarray, batches: int = 100) -> float:
    """Largest difference of means over all statistics, in standard errors; batch means for the chain."""
    means = chain[: len(chain) // batches * batches].reshape(batches, -1, chain.shape[1]).mean(axis=1)
    variance = means.var(axis=0, ddof=1) / batches + independent.var(axis=0, ddof=1) / len(independent)
    return float(np.max(np.abs(means.mean(axis=0) - independent.mean(axis=0)) / np.sqrt(variance)))


def z_score(
    scheme: PseudoMarginalChain | None = None,
    steps: int = 40_000,
    seed: int = 1,
    use_latent: bool = False,
    approximation: Approximation = DEFAULT,
) -> float:
    """Geweke's test of a scheme: about 3 at most if it is right (the largest of ten)."""
    scheme = scheme or PseudoMarginalChain(ImportanceSampling(4), refresh_every=3)
    chain = chain_statistics(scheme, steps, seed, use_latent, approximation)
    return largest_z_score(chain, prior_statistics(40_000, seed + 1))
