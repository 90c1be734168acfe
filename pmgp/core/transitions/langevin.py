"""Langevin proposals with a metric, for any density (Algorithm 2 of the comparative evaluation)."""

from __future__ import annotations

import numpy as np

from pmgp.core.numerics import linalg
from pmgp.core.transitions.base import MetricDensity, Point, TransitionInfo
from pmgp.core.transitions.metropolis_hastings import metropolis_choice


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
        complete = density.with_metric(candidate, point)
        if complete is None:
            return point, TransitionInfo(False, 0.0, 1)
        forward = 0.5 * linalg.log_determinant(point.metric_factor) - 0.5 * float(noise @ noise)
        backward = _log_proposal(complete, point.position, step_size)
        log_ratio = complete.log_density - point.log_density + backward - forward
    return metropolis_choice(rng, point, complete, log_ratio, 1)


def _drifted(point: Point, step_size: float) -> np.ndarray:
    """Return the mean of the proposal from a point (equation 10)."""
    drift = linalg.cholesky_solve(point.metric_factor, point.gradient)
    return point.position + 0.5 * step_size * step_size * drift


def _log_proposal(point: Point, position: np.ndarray, step_size: float) -> float:
    """Return the log-density of proposing `position` from `point`, up to a constant."""
    deviation = position - _drifted(point, step_size)
    whitened = linalg.triangular_product(point.metric_factor, deviation, transpose=True) / step_size
    return 0.5 * linalg.log_determinant(point.metric_factor) - 0.5 * float(whitened @ whitened)
