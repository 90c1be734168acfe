"""A slice move on an ellipse (Murray, Adams and MacKay 2010), for any target that is a Gaussian times a factor."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi, sin

import numpy as np

# Below this width only rounding can keep the current point, to which the bracket shrinks, from being accepted.
SMALLEST_BRACKET = 1e-12


def slice_on_ellipse(
    rng: np.random.Generator,
    deviation: np.ndarray,
    auxiliary: np.ndarray,
    log_ratio: Callable[[np.ndarray], float],
    current: float,
) -> tuple[np.ndarray, float, int]:
    """Sample a point of the ellipse through `deviation` and `auxiliary`.

    `deviation`, `auxiliary` (n,): the current point and a draw from the reference, both less its mean; `current`:
    `log_ratio` at the current point.

    Returns `deviation` (n,): the new point; `value`: `log_ratio` there; `evaluations`: calls of `log_ratio`.
    """
    threshold = current - rng.standard_exponential()
    # Python's floats and functions: NumPy's cost more than the arithmetic of a small n.
    angle = 2.0 * pi * rng.random()
    lower, upper = angle - 2.0 * pi, angle
    evaluations = 0
    while True:
        candidate = deviation * cos(angle)
        candidate += auxiliary * sin(angle)
        value = log_ratio(candidate)
        evaluations += 1
        if value > threshold:
            return candidate, value, evaluations
        # The bracket shrinks towards angle zero, the current point, which is always on the slice.
        if angle < 0.0:
            lower = angle
        else:
            upper = angle
        if upper - lower < SMALLEST_BRACKET:
            return deviation, current, evaluations
        angle = lower + (upper - lower) * rng.random()
