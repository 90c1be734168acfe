"""Metropolis-Hastings: the choice between a point and a candidate, and the random walk.

Section 3.1 of the comparative evaluation. A proposal that is so far out that something overflows there is rejected; it
needs no warning, here and in the other transitions.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.transitions.base import Density, Point, TransitionInfo

__all__ = ["metropolis_choice", "random_walk"]


def metropolis_choice(
    rng: np.random.Generator, current: Point, candidate: Point, log_ratio: float, evaluations: int
) -> tuple[Point, TransitionInfo]:
    """Accept the candidate with probability min(1, exp(log_ratio)); what is not a number is rejected."""
    rate = float(np.exp(min(log_ratio, 0.0))) if log_ratio == log_ratio else 0.0
    accepted = rng.uniform() < rate
    return candidate if accepted else current, TransitionInfo(bool(accepted), rate, evaluations)


def random_walk(
    rng: np.random.Generator, point: Point, density: Density, step_size: float
) -> tuple[Point, TransitionInfo]:
    """Metropolis with x' = x + step_size e (section 3.1; in scaled coordinates equation 11)."""
    noise = rng.standard_normal(point.position.shape)
    with np.errstate(all="ignore"):
        candidate = density.at(point.position + step_size * noise)
        log_ratio = candidate.log_density - point.log_density
    return metropolis_choice(rng, point, candidate, log_ratio, 1)
