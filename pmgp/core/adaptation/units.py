"""Units of hyper-parameters: a mean of prices may have deviations of thousands, where a log-scale has one.

What chains and searches learn begins with steps of about one, and finite differences are made with steps of a
thousandth. Where the prior of an element is much wider or narrower than one, the width of the posterior is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite

import numpy as np

# Widths of priors, and then of posteriors, with which an element keeps the unit one. Widths are powers of four.
USUAL_PRIOR, USUAL_POSTERIOR = (1.0 / 16.0, 16.0), (0.25, 4.0)
STEP, MOST_STEPS = 4.0, 25

LogDensity = Callable[[np.ndarray], float]


def units(log_prior: LogDensity, log_density: LogDensity, theta: np.ndarray) -> np.ndarray:
    """Return a unit for each element of theta, a power of two: (dimension,).

    `log_density`: log-posterior, which is evaluated only where the prior's width is unusual; `theta`
    (dimension,): where both are finite.
    """
    found = np.ones(len(theta))
    for element in range(len(theta)):
        if not _within(width(log_prior, theta, element), USUAL_PRIOR):
            posterior = width(log_density, theta, element)
            usual = _within(posterior, USUAL_POSTERIOR) or not isfinite(posterior)
            found[element] = 1.0 if usual else posterior
    return found


def width(log_density: LogDensity, theta: np.ndarray, element: int) -> float:
    """Return about the step h of an element at which 2 log p(theta) - log p(theta + h) - log p(theta - h) is one.

    For a normal density it is the deviation, up to a factor of four. It is infinite if the density is flat, and one if
    the density is zero at theta.
    """
    here = log_density(theta)

    def is_long(step: float) -> bool:
        shift = np.zeros(len(theta))
        shift[element] = step
        # Far out, a scale or its reciprocal overflows; a density that is not finite makes the step a long one.
        with np.errstate(all="ignore"):
            bend = 2.0 * here - log_density(theta + shift) - log_density(theta - shift)
        return not bend < 1.0

    if not isfinite(here):
        return 1.0
    step, long = 1.0, is_long(1.0)
    factor = 1.0 / STEP if long else STEP
    for _ in range(MOST_STEPS):
        if is_long(step * factor) != long:
            # The larger one of two steps, between which the width lies.
            return step if long else step * factor
        step *= factor
    return 1.0 if long else inf


def _within(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]
