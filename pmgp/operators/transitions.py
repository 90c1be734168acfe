"""The transitions themselves, for any density: random walk, Hamiltonian, and Langevin with a metric.

Section 3 of the comparative evaluation. Each leaves the density invariant for every step size. A proposal that is
so far out that something overflows there is rejected; it needs no warning.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pmgp import linalg
from pmgp.operators.base import Density, Point, TransitionInfo, metropolis_choice

__all__ = ["MetricDensity", "hamiltonian", "langevin", "random_walk"]


class MetricDensity(Density, Protocol):
    """A density with a metric tensor G(x)."""

    def with_metric(self, point: Point, known: Point | None = None) -> Point:
        """Add the factor of G to a point; `known` is one whose metric may be the same."""
        ...


def random_walk(
    rng: np.random.Generator, point: Point, density: Density, step_size: float
) -> tuple[Point, TransitionInfo]:
    """Metropolis with x' = x + step_size e (section 3.1; in scaled coordinates equation 11)."""
    noise = rng.standard_normal(point.position.shape)
    with np.errstate(all="ignore"):
        candidate = density.at(point.position + step_size * noise)
        log_ratio = candidate.log_density - point.log_density
    return metropolis_choice(rng, point, candidate, log_ratio, 1)


def hamiltonian(
    rng: np.random.Generator, point: Point, density: Density, step_size: float, max_leapfrog: int
) -> tuple[Point, TransitionInfo]:
    """Hybrid Monte Carlo with a unit mass matrix and a random number of leapfrog steps (Algorithm 1).

    The point must have its gradient. The two half steps of the momentum between two positions are made as one.
    """
    position, gradient = point.position, point.gradient
    momentum = rng.standard_normal(position.shape)
    steps = int(rng.integers(1, max_leapfrog + 1))
    kinetic = 0.5 * float(momentum @ momentum)
    with np.errstate(all="ignore"):
        momentum += 0.5 * step_size * gradient
        for _ in range(steps - 1):
            position = position + step_size * momentum
            momentum += step_size * density.gradient(position)
        candidate = density.at(position + step_size * momentum, gradient=True)
        momentum += 0.5 * step_size * candidate.gradient
        log_ratio = candidate.log_density - point.log_density + kinetic - 0.5 * float(momentum @ momentum)
    return metropolis_choice(rng, point, candidate, log_ratio, steps)


def langevin(
    rng: np.random.Generator, point: Point, density: MetricDensity, step_size: float
) -> tuple[Point, TransitionInfo]:
    """Simplified manifold Langevin with metric G(x) = L_G L_G' (Algorithm 2).

    x' ~ N(x + step^2/2 G^-1 grad, step^2 G^-1), and both proposal densities enter the ratio, because G(x') differs
    from G(x). Algorithm 2 is printed with an inverse in the quadratic form; it is (x' - mu)' G (x' - mu) / step^2,
    the squared norm of L_G' (x' - mu) / step. The point must have its gradient and metric.
    """
    noise = rng.standard_normal(point.position.shape)
    shift = linalg.triangular_solve(point.metric_factor, noise, transpose=True)
    with np.errstate(all="ignore"):
        candidate = density.at(_drifted(point, step_size) + step_size * shift, gradient=True)
        try:
            candidate = density.with_metric(candidate, point)
        except (linalg.NotPositiveDefiniteError, FloatingPointError):
            return point, TransitionInfo(False, 0.0, 1)
        forward = 0.5 * linalg.log_determinant(point.metric_factor) - 0.5 * float(noise @ noise)
        backward = _log_proposal(candidate, point.position, step_size)
        log_ratio = candidate.log_density - point.log_density + backward - forward
    return metropolis_choice(rng, point, candidate, log_ratio, 1)


def _drifted(point: Point, step_size: float) -> np.ndarray:
    """Mean of the proposal from a point (equation 10)."""
    drift = linalg.cholesky_solve(point.metric_factor, point.gradient)
    return point.position + 0.5 * step_size * step_size * drift


def _log_proposal(point: Point, position: np.ndarray, step_size: float) -> float:
    """Log-density of proposing `position` from `point`, up to a constant."""
    deviation = position - _drifted(point, step_size)
    whitened = linalg.triangular_product(point.metric_factor, deviation, transpose=True) / step_size
    return 0.5 * linalg.log_determinant(point.metric_factor) - 0.5 * float(whitened @ whitened)
