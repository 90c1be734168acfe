"""Hamiltonian Monte Carlo with a metric that may depend on the position (Girolami and Calderhead 2011).

With H = -log p(x) + log|G(x)|/2 + p'G(x)^-1 p/2 and v = G^-1 p, the generalized leapfrog is half a step of the momentum
that is implicit in the momentum, a step of the position that is implicit in the position, and half a step of the
momentum. Fixed points are found by iteration, to a tolerance on v; if none is found, the trajectory is rejected. With a
constant metric this is the usual leapfrog.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from pmgp.core.numerics.arrays import check_tolerance, check_whole
from pmgp.core.transitions.base import Density, Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import metropolis_choice


class Metric(Protocol):
    """G at one position.

    `constant`: whether the metric is the same everywhere.
    """

    constant: ClassVar[bool]

    @property
    def log_determinant(self) -> float:
        """Log|G|, up to a constant."""

    def momentum(self, rng: np.random.Generator) -> np.ndarray:
        """Draw from N(0, G)."""

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """Return G^-1 p."""

    def force(self, velocity: np.ndarray) -> np.ndarray:
        """Return the gradient of log|G|/2 + p'G^-1 p/2 in the position: (tr(G^-1 d_jG) - v'd_jG v) / 2 for each j."""


class RiemannianDensity(Density, Protocol):
    """A density with a metric at every position."""

    def metric_at(self, position: np.ndarray) -> Metric | None:
        """Return G at a position; None if it does not exist."""


@dataclass(frozen=True)
class Solver:
    """Iteration to a fixed point.

    `tolerance`: the iteration ends when no element of the velocity changes by more than this, relative to the largest
    one.
    """

    tolerance: float = 1e-6
    max_iterations: int = 100

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)
        check_whole(max_iterations=self.max_iterations)

    def settled(self, new: np.ndarray, old: np.ndarray) -> bool:
        """Return whether the iteration has changed almost nothing."""
        return bool(np.abs(new - old).max() <= self.tolerance * np.abs(new).max())


class Moving(NamedTuple):
    """A point with its gradient, and its metric instead of the factor; a momentum, and its velocity there."""

    point: Point
    momentum: np.ndarray
    velocity: np.ndarray

    @property
    def energy(self) -> float:
        """H, up to a constant."""
        kinetic = 0.5 * float(self.momentum @ self.velocity)
        return kinetic + 0.5 * self.point.metric_factor.log_determinant - self.point.log_density


def riemannian(
    rng: np.random.Generator,
    point: Point,
    density: RiemannianDensity,
    step_size: float,
    max_leapfrog: int,
    solver: Solver,
) -> tuple[Point, TransitionInfo]:
    """Follow one trajectory, whose number of steps is uniform from 1 to `max_leapfrog`.

    The given point must have its gradient, and its metric instead of the metric's factor; the returned one has both.
    """
    momentum = point.metric_factor.momentum(rng)
    moving = begun = Moving(point, momentum, point.metric_factor.velocity(momentum))
    steps = int(rng.integers(1, max_leapfrog + 1))
    with np.errstate(all="ignore"):
        for step in range(1, steps + 1):
            reached = leapfrog(moving, density, step_size, solver)
            if reached is None:
                return point, TransitionInfo(False, 0.0, step, energy_error=np.inf, step_size=step_size)
            moving = reached
        log_ratio = begun.energy - moving.energy
    moved, info = metropolis_choice(rng, point, moving.point, log_ratio, steps)
    return moved, info._replace(energy_error=-log_ratio if log_ratio == log_ratio else np.inf, step_size=step_size)


def leapfrog(moving: Moving, density: RiemannianDensity, step_size: float, solver: Solver) -> Moving | None:
    """Make one generalized leapfrog step; None if a fixed point is not found, or if values are not finite."""
    point, half = moving.point, 0.5 * step_size
    pushed = _pushed(moving, half, solver)
    if pushed is None:
        return None
    momentum, velocity = pushed
    reached = _drifted(point, momentum, velocity, density, half, solver)
    if reached is None:
        return None
    position, metric, velocity = reached
    candidate = density.at(position, gradient=True)._replace(metric_factor=metric)
    momentum = momentum + half * (candidate.gradient - metric.force(velocity))
    if not np.isfinite(momentum).all():
        return None
    return Moving(candidate, momentum, metric.velocity(momentum))


def _pushed(moving: Moving, half: float, solver: Solver) -> tuple[np.ndarray, np.ndarray] | None:
    """Make the first half step of the momentum, p = p_0 - step/2 dH/dx(x, p); return it with its velocity."""
    metric = moving.point.metric_factor
    explicit = moving.momentum + half * moving.point.gradient
    if metric.constant:
        return explicit, metric.velocity(explicit)
    velocity = moving.velocity
    for _ in range(solver.max_iterations):
        momentum = explicit - half * metric.force(velocity)
        before, velocity = velocity, metric.velocity(momentum)
        if solver.settled(velocity, before):
            return momentum, velocity
    return None


def _drifted(
    point: Point, momentum: np.ndarray, velocity: np.ndarray, density: RiemannianDensity, half: float, solver: Solver
) -> tuple[np.ndarray, Metric, np.ndarray] | None:
    """Move the position, x' = x + step/2 (v(x, p) + v(x', p)); return it with its metric, and the velocity there."""
    if point.metric_factor.constant:
        return point.position + 2.0 * half * velocity, point.metric_factor, velocity
    there = velocity
    for _ in range(solver.max_iterations):
        position = point.position + half * (velocity + there)
        metric = density.metric_at(position) if np.isfinite(position).all() else None
        if metric is None:
            return None
        before, there = there, metric.velocity(momentum)
        if solver.settled(there, before):
            return position, metric, there
    return None
