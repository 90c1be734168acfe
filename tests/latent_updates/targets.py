"""Posteriors of f whose moments are known, by algebra or on a grid."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit, Likelihood, LogGaussianCox
from tests.latent_updates.cases import GaussianLikelihood, length_of
from tests.latent_updates.chains import largest_distance, path


class Target(NamedTuple):
    """A posterior, and what some statistics of f must be on average.

    Attributes
    ----------
    statistics : callable
        Of draws of shape (steps, n), the result (steps, k).
    truth : (k,) array
    """

    mean: np.ndarray
    covariance: np.ndarray
    likelihood: Likelihood
    statistics: Callable[[np.ndarray], np.ndarray]
    truth: np.ndarray

    def prior(self) -> DensePrior:
        """A prior that nobody has factorized yet."""
        return DensePrior(self.mean, self.covariance.copy(order="F"))

    def distance(self, operator: Any, seed: int = 1, times: float = 1.0) -> float:
        """Largest distance of averages from the truth, in standard errors; `times` the operator's length are drawn."""
        length = int(times * length_of(operator))
        draws = path(operator, self.prior(), self.likelihood, length, seed, tuning=min(500, length // 10))
        return largest_distance(self.statistics(draws), self.truth)


def first_and_second_moments(draws: np.ndarray) -> np.ndarray:
    rows, columns = np.triu_indices(draws.shape[1])
    return np.concatenate([draws, draws[:, rows] * draws[:, columns]], axis=1)


@cache
def conjugate() -> Target:
    """Five correlated values on scales from 0.2 to 4, with normal observations."""
    root = np.random.default_rng(3).normal(size=(5, 5))
    correlated = root @ root.T + 0.3 * np.eye(5)
    scale = np.array([4.0, 0.2, 1.0, 2.0, 0.4]) / np.sqrt(correlated.diagonal())
    covariance = correlated * np.outer(scale, scale)
    mean = np.array([3.0, -0.2, 0.0, 1.0, 0.5])
    likelihood = GaussianLikelihood(np.array([1.0, 0.0, 2.0, -1.0, 0.4]), np.array([1.0, 0.3, 1.5, 0.6, 0.4]))
    gain = np.linalg.solve(covariance + np.diag(1.0 / likelihood.precision), covariance).T
    posterior_mean = mean + gain @ (likelihood.y - mean)
    second = covariance - gain @ covariance + np.outer(posterior_mean, posterior_mean)
    truth = np.concatenate([posterior_mean, second[np.triu_indices(5)]])
    return Target(mean, covariance, likelihood, first_and_second_moments, truth)


def _moments_on_a_grid(target: Target, grid: np.ndarray) -> np.ndarray:
    deviation = grid - target.mean
    quadratic = np.einsum("gi,gi->g", deviation, np.linalg.solve(target.covariance, deviation.T).T)
    log_density = target.likelihood.log_likelihood(grid) - 0.5 * quadratic
    weights = np.exp(log_density - log_density.max())
    return weights @ target.statistics(grid) / weights.sum()


def _skewed_pair_statistics(f: np.ndarray) -> np.ndarray:
    """Bounded ones: ellipses from Laplace's approximation, narrower than this posterior, return late from its tails."""
    levels = np.tanh((f[:, :, None] - np.array([-1.0, 1.0, 3.0])) / 1.5).reshape(len(f), -1)
    return np.concatenate([levels, levels[:, 1:2] * levels[:, 4:5]], axis=1)


@cache
def skewed_pair() -> Target:
    """Two values that are probably positive, against the prior: the left tails are cut off."""
    covariance = np.array([[4.0, 2.5], [2.5, 3.0]])
    target = Target(
        np.array([-1.0, 0.5]), covariance, BernoulliProbit(np.array([1, 1])), _skewed_pair_statistics, np.empty(0)
    )
    axis = np.linspace(-14.0, 14.0, 701)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return target._replace(truth=_moments_on_a_grid(target, grid))


def _skewed_single_statistics(f: np.ndarray) -> np.ndarray:
    return np.concatenate([f, f**2, f**3, np.exp(f)], axis=1)


@cache
def skewed_single() -> Target:
    """One log-rate of which nothing was counted: a wall to the right, the prior to the left."""
    likelihood = LogGaussianCox(np.array([0]))
    target = Target(np.array([1.0]), np.array([[4.0]]), likelihood, _skewed_single_statistics, np.empty(0))
    return target._replace(truth=_moments_on_a_grid(target, np.linspace(-14.0, 8.0, 20_001)[:, None]))
