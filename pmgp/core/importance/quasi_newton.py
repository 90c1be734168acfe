"""BFGS from a guess of the curvature: few gradients where the guess is good, since each may take a factorization."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pmgp.core.importance.peak import Density
from pmgp.core.numerics.bfgs import after_step

Ended = Callable[[np.ndarray, np.ndarray], bool]
"""Whether a climb is to end early at theta, with the gradient there."""

# A climb ends where the next step is this short, a root mean square over directions in posterior deviations; largest
# number of gradients of a climb.
NEAR, MOST_GRADIENTS = 0.3, 40
# Limits of a step: its length in deviations, and the change of an element on the unconstrained scale. It may reach the
# larger one.
LONGEST, RADIUS = 3.0, 1.0
# A step is shortened if it gains less than this share of the increase that the slope promises; smallest and largest
# factor of a shortening; smallest share of the step that is tried.
ENOUGH, SHORTENED, SHORTEST = 1e-4, (0.1, 0.6), 1e-3


class Reached(NamedTuple):
    """Where a climb ended.

    `theta`, `gradient` (dimension,); `inverse` (dimension, dimension): an estimate of the inverse of minus the Hessian.
    """

    theta: np.ndarray
    value: float
    gradient: np.ndarray
    inverse: np.ndarray

    @property
    def step(self) -> np.ndarray:
        """The step to the maximum of a quadratic: (dimension,)."""
        return self.inverse @ self.gradient

    @property
    def distance(self) -> float:
        """The length of that step, a root mean square over directions in the quadratic's deviations."""
        return float(np.sqrt(self.gradient @ self.step / len(self.theta)))

    @property
    def finite(self) -> bool:
        """Whether there is a value and a gradient."""
        return bool(np.isfinite([self.value, *self.gradient]).all())


def near_maximum(density: Density, theta: np.ndarray, inverse: np.ndarray, ended: Ended) -> Reached | None:
    """Climb until the next step is short; None if the climb ended early, or there is no way up.

    - `theta` (dimension,): where the climb begins
    - `inverse` (dimension, dimension): a guess of the inverse of minus the Hessian, positive definite
    """
    at, gradients = Reached(theta, *density(theta), inverse), 1
    while at.finite and not ended(at.theta, at.gradient):
        if at.distance < NEAR:
            return at
        following, tried = _higher(density, at, _limit(at.step, inverse))
        gradients += tried
        if following is None or gradients >= MOST_GRADIENTS:
            return None
        at = following
    return None


def _limit(step: np.ndarray, inverse: np.ndarray) -> float:
    """Return the largest share of a step that may be taken."""
    deviations = float(np.sqrt(step @ np.linalg.solve(inverse, step)))
    return min(1.0, max(LONGEST / deviations, RADIUS / float(np.abs(step).max())))


def _higher(density: Density, at: Reached, share: float) -> tuple[Reached | None, int]:
    """Return a higher point in the direction of the step, with the curvature updated, and the number of gradients."""
    slope, tried = float(at.gradient @ at.step), 0
    while share >= SHORTEST:
        moved = share * at.step
        value, gradient = density(at.theta + moved)
        tried += 1
        found = Reached(at.theta + moved, value, gradient, after_step(at.inverse, moved, at.gradient - gradient))
        if found.finite and value > at.value + ENOUGH * share * slope:
            return found, tried
        share *= _shortening(at.value, share * slope, value) if found.finite else SHORTENED[0]
    return None, tried


def _shortening(before: float, slope: float, after: float) -> float:
    """Return the maximum, within bounds, of the parabola through two values with this slope at the first one."""
    return float(np.clip(0.5 * slope / (before + slope - after), *SHORTENED))
