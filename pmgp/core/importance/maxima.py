"""Other maxima of a log-density than the one that a climb has found.

A posterior of length-scales, one for each feature, may have several maxima: where one feature is left out, another one
explains what it did. The curvature at one maximum says nothing about the others, nor do the weights of draws about it,
if no draw is near another one. So climbs start elsewhere, and end early once they are on the way to a known maximum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from pmgp.core.importance.peak import Density, Polished, polished, scale_at, student_at
from pmgp.core.importance.quasi_newton import Reached, near_maximum
from pmgp.core.importance.split_student import SplitStudent

# Deviations of dispersed starting points, in posterior deviations about the first maximum.
DISPERSED = 2.5
# A climb is on the way to a maximum within this distance of it, or where the gradient differs from that of the normal
# density about it by less than this share.
CLOSE, SHARE = 1.0, 0.3
# A maximum is left out if it is lower than the highest known one by more than this, in nats.
LOWEST = 8.0
# Largest number of climbs from one starting point, each with the curvature at the end of the one before.
MOST_CLIMBS = 4


class Maximum(NamedTuple):
    """A maximum of a log-density: the value there, and the t distribution with the curvature there."""

    value: float
    student: SplitStudent


class Start(NamedTuple):
    """Where a climb begins: theta (dimension,), and a guess of the inverse of minus the Hessian."""

    theta: np.ndarray
    inverse: np.ndarray


def dispersed(rng: np.random.Generator, student: SplitStudent, number: int) -> list[Start]:
    """Return starting points about a maximum, farther away than draws."""
    normals = rng.standard_normal((number, student.dimension))
    return [Start(theta, student.scale) for theta in student.center + DISPERSED * normals @ student.axes.T]


def all_maxima(
    density: Density,
    known: Sequence[Maximum],
    starts: Iterable[Start],
    value: Callable[[np.ndarray], float] | None = None,
    differences: bool = True,
) -> list[Maximum]:
    """Climb from some points, and return the known maxima, and new ones unless they are much lower than the highest.

    - `value`: the log-density without its gradient, if that takes less
    - `differences`: whether the curvature at a maximum is found from differences between gradients beside it, or is
      that of BFGS, which takes no more gradients than the climb
    """
    found = list(known)
    climbs = _Climbs(density, value or (lambda theta: density(theta)[0]), differences, found)
    for start in starts:
        end = climbs.end_from(start)
        if end is not None:
            found.append(end)
    highest = max([one.value for one in found], default=0.0)
    return [one for one in found if one in known or one.value > highest - LOWEST]


class _Climbs:
    """Climbs that end early on the way to a known maximum."""

    def __init__(
        self, density: Density, value: Callable[[np.ndarray], float], differences: bool, known: list[Maximum]
    ) -> None:
        self._density, self._value, self._differences, self._known = density, value, differences, known

    def end_from(self, start: Start) -> Maximum | None:
        """Return the maximum, or None if it is known, or is not found."""
        found = self._reached(start)
        if found is None:
            return None
        value = self._value(found.theta)
        new = np.isfinite(value) and not any(_distance(one, found.theta) < CLOSE for one in self._known)
        return Maximum(value, student_at(found.theta, found.curvature)) if new else None

    def _reached(self, start: Start) -> Polished | None:
        """Return the maximum that a climb reaches, perhaps after further climbs from where it seemed to end."""
        for _ in range(MOST_CLIMBS):
            near = near_maximum(self._density, *start, self._homeward)
            found = None if near is None else self._last_steps(near)
            if found is None or found.converged:
                return found
            # The differences show a flat direction that BFGS has not seen.
            start = Start(found.theta, scale_at(found.curvature))
        return None

    def _last_steps(self, near: Reached) -> Polished | None:
        if not self._differences:
            return Polished(near.theta + near.step, np.linalg.inv(near.inverse))
        try:
            return polished(self._density, near.theta, (near.value, near.gradient))
        except ValueError:
            # There is no gradient beside that point.
            return None

    def _homeward(self, theta: np.ndarray, gradient: np.ndarray) -> bool:
        """Return whether the climb is on the way to a known maximum."""
        for _, student in self._known:
            position = np.linalg.solve(student.axes, theta - student.center)
            distance = np.linalg.norm(position)
            if distance < CLOSE or np.linalg.norm(position + student.axes.T @ gradient) < SHARE * distance:
                return True
        return False


def _distance(known: Maximum, theta: np.ndarray) -> float:
    return float(np.linalg.norm(np.linalg.solve(known.student.axes, theta - known.student.center)))
