"""Metropolis-Hastings: the choice between a point and a candidate, and the random walk.

See section 3.1 of the comparative evaluation. A proposal so far out that something overflows is rejected without a
warning, here and in the other transitions.
"""

from __future__ import annotations

from math import exp, inf
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from pmgp.core.transitions.base import AdaptiveTransition, Density, Point, TransitionInfo


class Proposed(NamedTuple):
    """A proposed position x' with log g(x|x') - log g(x'|x), and the component of the mixture g that made it."""

    position: np.ndarray
    log_hastings: float = 0.0
    component: int = 0


@runtime_checkable
class Proposing(AdaptiveTransition, Protocol):
    """A transition that proposes a position and accepts it or not, by :func:`metropolis_hastings`."""

    def propose(self, rng: np.random.Generator, position: np.ndarray, learned: Any) -> Proposed:
        """Draw a position given one, both of shape (dimension,)."""


def metropolis_choice(
    rng: np.random.Generator,
    current: Point,
    candidate: Point,
    log_ratio: float,
    evaluations: int,
    component: int = 0,
    proposed: tuple[np.ndarray, float] | None = None,
) -> tuple[Point, TransitionInfo]:
    """Accept the candidate with probability min(1, exp(log_ratio)).

    A NaN is rejected, and so is an infinite density, which the chain would never leave: far out, terms of a positive
    sum may overflow with the other sign.
    """
    known = log_ratio == log_ratio and candidate.log_density != inf
    rate = exp(min(log_ratio, 0.0)) if known else 0.0
    accepted = rng.random() < rate
    info = TransitionInfo(accepted, rate, evaluations, component, proposed=proposed)
    return candidate if accepted else current, info


@np.errstate(all="ignore")
def metropolis_hastings(
    rng: np.random.Generator, point: Point, density: Density, proposed: Proposed
) -> tuple[Point, TransitionInfo]:
    """Move to the proposal, or stay."""
    candidate = density.at(proposed.position)
    log_ratio = candidate.log_density - point.log_density + proposed.log_hastings
    visited = candidate.position, candidate.log_density
    return metropolis_choice(rng, point, candidate, log_ratio, 1, proposed.component, visited)


def random_walk(
    rng: np.random.Generator, point: Point, density: Density, step_size: float
) -> tuple[Point, TransitionInfo]:
    """Metropolis with x' = x + step_size e (section 3.1; in scaled coordinates equation 11)."""
    noise = rng.standard_normal(point.position.shape)
    return metropolis_hastings(rng, point, density, Proposed(point.position + step_size * noise))
