"""Runs of an operator, and their distance from the truth in Monte Carlo standard errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import Likelihood

BATCHES = 50
# With the 49 degrees of freedom of batch means, one z-score in 130,000 is larger; the tests of this folder compare
# about 3,000, of which a right operator thus exceeds the bound in one of fifty runs on another machine.
BOUND = 5.0


def targets_of(operator: Any, prior: DensePrior, likelihood: Callable[[np.ndarray], Likelihood]) -> Callable:
    """Return an operator's target as a function of the data; those of data that were seen before are kept."""

    @cache
    def prepared(*y: float) -> Any:
        return operator.prepare(prior, likelihood(np.array(y)))

    return lambda y: prepared(*y.tolist())


def tune(operator: Any, rng: np.random.Generator, target: Any, f: np.ndarray, steps: int) -> tuple[Any, StepSize]:
    """Where the chain is after `steps` transitions that adapt the step size, and what it has learned."""
    point = operator.init(target, f)
    size = StepSize.start(operator.initial_step_size(f.size), operator.largest_step_size)
    for _ in range(steps):
        point, info = operator.step(rng, point, target, size.value)
        size = size.updated(info.acceptance_rate, operator.target_acceptance)
    return point, size


def path(
    operator: Any, prior: DensePrior, likelihood: Likelihood, steps: int, seed: int = 1, tuning: int = 500
) -> np.ndarray:
    """Draws of p(f|theta, y), of shape (steps, n), with the step size that was learned before."""
    rng = np.random.default_rng(seed)
    target = operator.prepare(prior, likelihood)
    point, size = tune(operator, rng, target, prior.sample(rng, 1)[0], tuning)
    draws = np.empty((steps, prior.size))
    for row in draws:
        point, _ = operator.step(rng, point, target, size.frozen)
        row[:] = point.payload
    return draws


def batch_means(statistics: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of (steps, k) dependent draws and their standard errors, each of shape (k,)."""
    rows = len(statistics) // BATCHES * BATCHES
    means = statistics[:rows].reshape(BATCHES, -1, statistics.shape[1]).mean(axis=1)
    return means.mean(axis=0), means.std(axis=0, ddof=1) / np.sqrt(BATCHES)


def largest_distance(statistics: np.ndarray, truth: np.ndarray, truth_error: np.ndarray | float = 0.0) -> float:
    """Largest distance of the means of (steps, k) draws from the truth, in standard errors."""
    mean, error = batch_means(statistics)
    return float(np.max(np.abs(mean - truth) / np.hypot(error, truth_error)))
