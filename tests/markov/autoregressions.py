"""Autoregressions of order one with counts or returns, and their evidence by a forward grid."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.core.likelihoods.stochastic_volatility import StochasticVolatility
from pmgp.core.markov import ChainPattern, PrecisionPrior
from pmgp.core.markov.banded import autoregression

__all__ = ["DATA", "evidence_on_grid", "prior_of", "simulated", "stationary_variance"]

DATA: dict[str, Callable[[np.random.Generator, np.ndarray], LogGaussianCox | StochasticVolatility]] = {
    "counts": lambda rng, f: LogGaussianCox(rng.poisson(np.exp(f))),
    "returns": lambda rng, f: StochasticVolatility(rng.normal(size=len(f)) * np.exp(f)),
}


def stationary_variance(coefficient: float, innovation_variance: float) -> float:
    """Variance of a stationary autoregression of order one."""
    return innovation_variance / (1.0 - coefficient**2)


def prior_of(size: int, coefficient: float, variance: float, mean: float = 0.0) -> PrecisionPrior:
    """A stationary autoregression of order one with a marginal variance."""
    innovation = variance * (1.0 - coefficient**2)
    initial = np.full((1, 1), 1.0 / stationary_variance(coefficient, innovation))
    values = autoregression(np.array([coefficient]), innovation, initial, size)
    return PrecisionPrior.centered(ChainPattern.elements(size), values, mean)


def simulated(
    kind: str, size: int, coefficient: float, variance: float, mean: float = 0.0, seed: int = 0
) -> tuple[PrecisionPrior, Likelihood]:
    """The prior, and a likelihood with data made of a draw from it."""
    rng = np.random.default_rng(seed)
    prior = prior_of(size, coefficient, variance, mean)
    return prior, DATA[kind](rng, prior.sample(rng, 1)[0])


def evidence_on_grid(
    likelihood: Likelihood, size: int, coefficient: float, variance: float, mean: float = 0.0, states: int = 400
) -> float:
    """Log p(y), by a sum over states eight standard deviations to each side; exact to some ten digits."""
    grid = np.linspace(-8.0, 8.0, states) * np.sqrt(variance)
    width, innovation = grid[1] - grid[0], variance * (1.0 - coefficient**2)
    step = np.exp(-0.5 * np.square(grid[:, None] - coefficient * grid) / innovation)
    step *= width / np.sqrt(2.0 * np.pi * innovation)
    weights = np.exp(-0.5 * np.square(grid) / variance) * width / np.sqrt(2.0 * np.pi * variance)
    total = 0.0
    for time in range(size):
        terms = likelihood.subset(slice(time, time + 1)).log_likelihood(grid[:, None] + mean)
        largest = terms.max()
        weights = (step @ weights if time else weights) * np.exp(terms - largest)
        total += largest + np.log(weights.sum())
        weights /= weights.sum()
    return float(total)
