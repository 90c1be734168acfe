"""Elliptical slice moves of many particles at once, each on its own ellipse and in its own bracket.

This is the move of `elliptical_slice` for particles that are rows of one matrix: every call of the likelihood serves
all particles whose brackets are still shrinking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pmgp.core.transitions.elliptical_slice import SMALLEST_BRACKET


class Slices(NamedTuple):
    """Positions of the particles after a move.

    - `deviations`, `auxiliaries` (draws, n): the new particles, and the other axes of their ellipses: jointly
      distributed as before the move
    - `values` (draws,): the log ratio at the new particles
    """

    deviations: np.ndarray
    auxiliaries: np.ndarray
    values: np.ndarray


def slices_on_ellipses(
    rng: np.random.Generator,
    deviations: np.ndarray,
    auxiliaries: np.ndarray,
    log_ratio: Callable[[np.ndarray], np.ndarray],
    current: np.ndarray,
    temperature: float = 1.0,
) -> Slices:
    """Move particles, leaving the reference times ``exp(temperature * log_ratio)`` invariant.

    A particle and its auxiliary draw are rotated in their plane by the angle that the slice gives. This leaves their
    joint distribution invariant, the product of the particle's target and of the reference for the auxiliary. So the
    rotated auxiliary may be reused for another move of the same particle.

    - `deviations`, `auxiliaries` (draws, n): the particles, and draws from the reference, both less its mean
    - `log_ratio`: function of deviations: (k, n) -> (k,)
    - `current` (draws,): `log_ratio` at the particles
    """
    angle, values = _angles(rng, deviations, auxiliaries, log_ratio, current, temperature)
    cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
    return Slices(cosine * deviations + sine * auxiliaries, cosine * auxiliaries - sine * deviations, values)


def _angles(
    rng: np.random.Generator,
    deviations: np.ndarray,
    auxiliaries: np.ndarray,
    log_ratio: Callable[[np.ndarray], np.ndarray],
    current: np.ndarray,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the angles of the moves, and the log ratio there, both of shape (draws,)."""
    values = current.copy()
    threshold = temperature * current - rng.standard_exponential(len(current))
    angle = rng.uniform(0.0, 2.0 * np.pi, len(current))
    lower, upper = angle - 2.0 * np.pi, angle.copy()
    shrinking = np.arange(len(current))
    while shrinking.size:
        now = angle[shrinking][:, None]
        found = log_ratio(np.cos(now) * deviations + np.sin(now) * auxiliaries)
        inside = temperature * found > threshold[shrinking]
        values[shrinking[inside]] = found[inside]
        shrinking, deviations, auxiliaries = shrinking[~inside], deviations[~inside], auxiliaries[~inside]
        # The bracket shrinks towards angle zero, the current point, which is always on the slice.
        now = angle[shrinking]
        lower[shrinking] = np.where(now < 0.0, now, lower[shrinking])
        upper[shrinking] = np.where(now < 0.0, upper[shrinking], now)
        vanished = upper[shrinking] - lower[shrinking] <= SMALLEST_BRACKET
        angle[shrinking[vanished]] = 0.0
        if vanished.any():
            shrinking, deviations, auxiliaries = shrinking[~vanished], deviations[~vanished], auxiliaries[~vanished]
        angle[shrinking] = rng.uniform(lower[shrinking], upper[shrinking])
    return angle, values
