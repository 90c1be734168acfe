"""Resampled particles: the counts of the article on orthant integrals, and sequential Monte Carlo.

All methods add one variable after another to many particles. The counts draw it without regard to its limits, and
survivors replace the particles that leave them. Sequential Monte Carlo draws it between its limits, and resamples with
their probabilities as weights.

Particles are kept as the standard normal numbers behind their values, one particle a row, so that copying one reads and
writes memory in its order.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from pmgp.core.orthants.ordering import Ordered


class Particles(NamedTuple):
    """A finished population: the log of the estimate, and values (n, particles) with equal weights."""

    log_estimate: float
    values: np.ndarray


def hard_count(rng: np.random.Generator, problem: Ordered, particles: int) -> Particles:
    """Return an unbiased estimate from counts of survivors, which is zero if none is left."""
    return _counted(rng, problem, particles, soft=False)


def soft_count(rng: np.random.Generator, problem: Ordered, particles: int) -> Particles:
    """Return the article's estimate from averages of the survivors' probabilities, which is **biased**.

    The next particles are those that survived, and the product of averages is not their normalizer.
    """
    return _counted(rng, problem, particles, soft=True)


def _counted(rng: np.random.Generator, problem: Ordered, particles: int, soft: bool) -> Particles:
    noise = np.zeros((particles, problem.size))
    log_estimate = 0.0
    for i, (lower, upper, pivot) in enumerate(_steps(problem)):
        kappa = noise[:, :i] @ problem.factor[i, :i]
        drawn = rng.standard_normal(particles)
        noise[:, i] = drawn
        value = kappa + pivot * drawn
        alive = (value >= lower) & (value <= upper)
        share = float(_chances(kappa, lower, upper, pivot).mean()) if soft else float(alive.mean())
        if share == 0.0 or not alive.any():
            return _finished(problem, -np.inf, noise)
        log_estimate += np.log(share)
        dead = np.flatnonzero(~alive)
        parents = rng.choice(np.flatnonzero(alive), size=len(dead))
        noise[dead, : i + 1] = noise[parents, : i + 1]
    return _finished(problem, log_estimate, noise)


def sequential_monte_carlo(rng: np.random.Generator, problem: Ordered, particles: int) -> Particles:
    """Return an unbiased estimate from draws between limits, resampled with their probabilities as weights."""
    from pmgp.core.orthants.compiled_normal import truncated

    noise = np.zeros((particles, problem.size))
    log_estimate = 0.0
    drawn, log_chances = np.empty((2, particles))
    for i, (lower, upper, pivot) in enumerate(_steps(problem)):
        kappa = noise[:, :i] @ problem.factor[i, :i]
        uniforms = rng.uniform(size=particles)
        if pivot > 0.0:
            truncated((lower - kappa) / pivot, (upper - kappa) / pivot, uniforms, drawn, log_chances)
        else:
            drawn = ndtri(uniforms)
            log_chances[:] = np.where((kappa >= lower) & (kappa <= upper), 0.0, -np.inf)
        noise[:, i] = drawn
        largest = float(log_chances.max())
        if largest == -np.inf:
            return _finished(problem, -np.inf, noise)
        chances = np.exp(log_chances - largest)
        log_estimate += largest + float(np.log(chances.mean()))
        parents = _systematic(rng, chances)
        noise[:, : i + 1] = noise[parents, : i + 1]
    return _finished(problem, log_estimate, noise)


def _finished(problem: Ordered, log_estimate: float, noise: np.ndarray) -> Particles:
    """Return a population from standard normal numbers, (particles, n), without values that rounding takes outside."""
    values = problem.factor @ noise.T
    return Particles(log_estimate, np.clip(values, problem.lower[:, None], problem.upper[:, None], out=values))


def _steps(problem: Ordered) -> zip[tuple[float, float, float]]:
    """Return lower limit, upper limit and conditional standard deviation of one variable after another."""
    return zip(problem.lower, problem.upper, problem.factor.diagonal(), strict=True)


def _chances(kappa: np.ndarray, lower: float, upper: float, pivot: float) -> np.ndarray:
    """Return the probabilities of the limits given the variables before: (particles,)."""
    if pivot == 0.0:
        return ((kappa >= lower) & (kappa <= upper)).astype(float)
    return ndtr((upper - kappa) / pivot) - ndtr((lower - kappa) / pivot)


def _systematic(rng: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """Return indices drawn with a comb of points, in proportion to the weights on average: (particles,)."""
    cumulative = np.cumsum(weights)
    points = (np.arange(len(weights)) + rng.uniform()) * (cumulative[-1] / len(weights))
    return np.minimum(np.searchsorted(cumulative, points, side="right"), len(weights) - 1)
