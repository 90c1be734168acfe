"""A climb to a maximum along gradients alone, for log-densities whose values are too noisy to compare.

Directions are those of BFGS. A step is shortened where the gradient has turned back, which a line search would see from
the values, or where there is no gradient because a solver has not converged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pmgp.core.numerics.bfgs import after_step

Gradient = Callable[[np.ndarray], np.ndarray | None]

# Largest change of an element in one iteration, on the unconstrained scale.
RADIUS = 1.0
# A slope along the step that is this much steeper than before, and negative, is beyond the maximum.
TURNED = 0.5
SMALLEST_STEP = 1e-3


class Climbed(NamedTuple):
    """Where a climb ended.

    `theta`, `gradient` (p,); `inverse` (p, p): an estimate of the inverse of minus the Hessian; `distance`: distance to
    the maximum in posterior deviations, from a quadratic model; `evaluations`: number of gradients.
    """

    theta: np.ndarray
    gradient: np.ndarray
    inverse: np.ndarray
    distance: float
    evaluations: int


def climb(gradient: Gradient, start: np.ndarray, inverse: np.ndarray, tolerance: float, max_iterations: int) -> Climbed:
    """Climb until the maximum is at most `tolerance` posterior deviations away, or no step is left.

    - `gradient`: (p,) -> (p,), always the same at one theta; None where it cannot be computed
    - `start` (p,)
    - `inverse` (p, p): a first guess of the inverse of minus the Hessian, positive definite

    Raises ValueError if there is no gradient at the start.
    """
    theta, evaluations = start, 1
    found = gradient(theta)
    if found is None:
        raise ValueError("there is no gradient at the start")
    for _ in range(max_iterations):
        if distance(found, inverse) <= tolerance:
            break
        step = inverse @ found
        step *= min(1.0, RADIUS / np.abs(step).max())
        following, tried = _shortened(gradient, theta, found, step)
        evaluations += tried
        if following is None:
            break
        moved, reached = following
        inverse = after_step(inverse, moved, found - reached)
        theta, found = theta + moved, reached
    return Climbed(theta, found, inverse, distance(found, inverse), evaluations)


def distance(gradient: np.ndarray, inverse: np.ndarray) -> float:
    """Return the length of the step to the maximum of a quadratic, in its standard deviations."""
    return float(np.sqrt(gradient @ inverse @ gradient))


def _shortened(
    gradient: Gradient, theta: np.ndarray, before: np.ndarray, step: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray] | None, int]:
    """Return a step that does not overshoot the maximum by much, the gradient there, and the number of gradients."""
    share, slope, tried = 1.0, float(before @ step), 0
    while share >= SMALLEST_STEP:
        found = gradient(theta + share * step)
        tried += 1
        if found is None:
            share *= 0.5
            continue
        there = float(found @ step)
        if there >= -TURNED * slope:
            return (share * step, found), tried
        # The zero of the slope, if the slope falls linearly.
        share *= max(slope / (slope - there), 0.1)
    return None, tried
