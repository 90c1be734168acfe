"""Other maxima of a log-density than the one that a climb has found.

A posterior of length-scales, one for each feature, may have several maxima: where one feature is left out, another one
explains what it did. The curvature at one maximum shows nothing of the others, and nor do weights of draws about it, if
no draw is near another one. So climbs start elsewhere, and end as soon as they are on the way to a known maximum.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pmgp.core.importance.peak import Density, polished, student_at
from pmgp.core.importance.split_student import SplitStudent

# Deviations of dispersed starting points, in posterior deviations about the first maximum.
DISPERSED = 2.5
# A climb is on the way to a maximum within this distance of it, or where the gradient differs from that of the normal
# density about it by less than this share.
CLOSE, SHARE = 1.0, 0.3
# Newton's method takes over where its step is this short. No step is longer than this, or than half of the distance to
# the first maximum; most gradients of a climb.
NEAR, LONGEST, MOST_GRADIENTS = 0.5, 3.0, 40
# Share of the increase that the slope promises, below which a step is shortened by the next factor; the shortest step.
ENOUGH, SHORTENED, SHORTEST = 1e-4, 0.3, 1e-3
# A maximum that is lower than the highest known one by more than this is left out, in nats.
LOWEST = 8.0


class Maximum(NamedTuple):
    """A maximum of a log-density: its value there, and the t distribution with the curvature there."""

    value: float
    student: SplitStudent


def dispersed(rng: np.random.Generator, student: SplitStudent, number: int) -> np.ndarray:
    """Return starting points about a maximum, farther away than draws: (number, dimension)."""
    normals = rng.standard_normal((number, student.dimension))
    return student.center + DISPERSED * normals @ student.axes.T


def all_maxima(density: Density, known: Sequence[Maximum], starts: Iterable[np.ndarray]) -> list[Maximum]:
    """Climb from some points, and return the known maxima and others that are not much lower than the highest."""
    found = list(known)
    for start in starts:
        end = _Climb(density, found).end_from(start)
        if end is not None and end.value > max(one.value for one in found) - LOWEST:
            found.append(end)
    return found


class _Climb:
    """BFGS in coordinates in which the density about the first maximum is standard normal."""

    def __init__(self, density: Density, known: list[Maximum]) -> None:
        self._density, self._known = density, known
        self._axes = known[0].student.axes

    def end_from(self, theta: np.ndarray) -> Maximum | None:
        """Return the maximum, or None if it is known, or is not found."""
        near = self._near_maximum(theta)
        try:
            found = None if near is None else polished(self._density, near)
        except ValueError:
            # There is no gradient beside that point.
            found = None
        if found is None:
            return None
        value = self._density(found.theta)[0]
        new = np.isfinite(value) and not any(_distance(one, found.theta) < CLOSE for one in self._known)
        return Maximum(value, student_at(found.theta, found.curvature)) if new else None

    def _near_maximum(self, theta: np.ndarray) -> np.ndarray | None:
        inverse, gradients = np.eye(len(theta)), 1
        value, slope = self._at(theta)
        while gradients < MOST_GRADIENTS and not self._homeward(theta, slope):
            if not np.isfinite([value, *slope]).all():
                return None
            step = inverse @ slope
            if np.sqrt(step @ slope) < NEAR:
                return theta
            longest = max(LONGEST, 0.5 * _distance(self._known[0], theta))
            step *= min(1.0, longest / np.linalg.norm(step))
            following, slope_there = self._at(theta + self._axes @ step)
            gradients += 1
            while not following > value + ENOUGH * (step @ slope):
                step *= SHORTENED
                if np.linalg.norm(step) < SHORTEST:
                    return None
                following, slope_there = self._at(theta + self._axes @ step)
                gradients += 1
            inverse = _updated(inverse, step, slope - slope_there)
            theta, value, slope = theta + self._axes @ step, following, slope_there
        return None

    def _at(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._density(theta)
        return value, self._axes.T @ gradient

    def _homeward(self, theta: np.ndarray, slope: np.ndarray) -> bool:
        """Return whether the climb is on the way to a known maximum."""
        gradient = np.linalg.solve(self._axes.T, slope)
        for _, student in self._known:
            position = np.linalg.solve(student.axes, theta - student.center)
            distance = np.linalg.norm(position)
            if distance < CLOSE or np.linalg.norm(position + student.axes.T @ gradient) < SHARE * distance:
                return True
        return False


def _distance(known: Maximum, theta: np.ndarray) -> float:
    return float(np.linalg.norm(np.linalg.solve(known.student.axes, theta - known.student.center)))


def _updated(inverse: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return BFGS's inverse curvature after a step; `change`: of minus the gradient."""
    across = float(step @ change)
    if across <= 0.0:
        return inverse
    left = np.eye(len(step)) - np.outer(step, change) / across
    return left @ inverse @ left.T + np.outer(step, step) / across
