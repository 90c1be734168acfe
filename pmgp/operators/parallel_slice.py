"""Elliptical slice moves of many particles at once, each on its own ellipse and in its own bracket.

The same move as `pmgp.operators.elliptical_slice`, for particles that are rows of one matrix: every call of the
likelihood serves all whose brackets are still shrinking.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["slices_on_ellipses"]

# The bracket shrinks to the current point; this far on, nothing but rounding can keep it from being accepted.
SMALLEST_BRACKET = 1e-12


def slices_on_ellipses(
    rng: np.random.Generator,
    deviations: np.ndarray,
    auxiliaries: np.ndarray,
    log_ratio: Callable[[np.ndarray], np.ndarray],
    current: np.ndarray,
    temperature: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Move particles, leaving the reference times ``exp(temperature * log_ratio)`` invariant.

    Parameters
    ----------
    rng : numpy.random.Generator
    deviations, auxiliaries : (draws, n) array
        The particles, and draws of the reference, both less its mean.
    log_ratio : callable
        Of deviations: (k, n) -> (k,).
    current : (draws,) array
        Its values at the particles.
    temperature : float

    Returns
    -------
    deviations : (draws, n) array
        The new particles.
    values : (draws,) array
        `log_ratio` there.
    """
    moved, values = deviations.copy(), current.copy()
    threshold = temperature * current - rng.standard_exponential(len(current))
    angle = rng.uniform(0.0, 2.0 * np.pi, len(current))
    lower, upper = angle - 2.0 * np.pi, angle.copy()
    shrinking = np.arange(len(current))
    while shrinking.size:
        now = angle[shrinking][:, None]
        candidates = deviations[shrinking] * np.cos(now) + auxiliaries[shrinking] * np.sin(now)
        found = log_ratio(candidates)
        inside = temperature * found > threshold[shrinking]
        moved[shrinking[inside]], values[shrinking[inside]] = candidates[inside], found[inside]
        shrinking = shrinking[~inside]
        # The bracket shrinks towards angle zero, the current point, which is always on the slice.
        below = angle < 0.0
        lower = np.where(below, angle, lower)
        upper = np.where(below, upper, angle)
        shrinking = shrinking[upper[shrinking] - lower[shrinking] > SMALLEST_BRACKET]
        angle[shrinking] = rng.uniform(lower[shrinking], upper[shrinking])
    return moved, values
