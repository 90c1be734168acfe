"""A proposal for theta at the maximum of its log-density: a t distribution with the curvature there.

For many observations the posterior of a few hyper-parameters is close to a normal distribution on the unconstrained
scale. Independent draws from a t with its location and its curvature then have importance weights that vary little, and
each costs one evaluation, where a chain needs several gradients for an effective draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from pmgp.core.importance.split_student import SplitStudent

Density = Callable[[np.ndarray], tuple[float, np.ndarray]]

# Relative change of the log-density at which the search ends, and number of restarts from where it ended.
TOLERANCE, RESTARTS = 1e-10, 5
# Steps of the differences between gradients, on the unconstrained scale.
STEP = 1e-3
# Smallest curvature of a direction, that of a normal distribution with a standard deviation of three.
SMALLEST_CURVATURE = 1.0 / 9.0
DEGREES_OF_FREEDOM = 7.0
# The last step of Newton's method is shorter than this, a root mean square over directions in posterior deviations; the
# other numbers are the largest number of steps, and the largest ratio of a step's length to that of the one before.
CLOSE, MOST_STEPS, SHORTER = 0.5, 4, 0.7


class Peak(NamedTuple):
    """Maximum of a log-density.

    `theta` (dimension,); `evaluations`: number of values with gradients that the search computed; `message`: message of
    the optimizer.
    """

    theta: np.ndarray
    evaluations: int
    converged: bool
    message: str


def peak(density: Density, start: np.ndarray, max_iterations: int = 200, units: np.ndarray | float = 1.0) -> Peak:
    """Climb to a maximum of the log-density with L-BFGS.

    - `density`: the log-density and its gradient: (dimension,) -> (float, (dimension,)). Where they are not finite, the
      search takes a shorter step
    - `start` (dimension,)
    - `units` (dimension,): lengths with which the density changes about as much as with one in the other directions

    Raises ValueError if the log-density is not finite at the start.
    """

    def scaled(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = density(units * x)
        return value, units * gradient

    climb = _Climb(scaled, start / units)
    for _ in range(RESTARTS):
        best = climb.lowest
        found = minimize(
            climb.negative,
            climb.at_lowest,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": max_iterations, "ftol": TOLERANCE},
        )
        if found.success or not climb.lowest < best - TOLERANCE * abs(best):
            break
    return Peak(units * climb.at_lowest, climb.evaluations, bool(found.success), str(found.message))


class _Climb:
    """Minus the log-density for a line search, which needs finite values everywhere.

    Where the density is zero, it has a slope that points back to the best point so far. With a huge constant, as is
    often used, the interpolation of the line search would give up.
    """

    def __init__(self, density: Density, start: np.ndarray) -> None:
        self.density = density
        self.lowest, self.at_lowest, self.evaluations = -density(start)[0], start, 1
        if not np.isfinite(self.lowest):
            raise ValueError("the log-density is not finite at the start")
        self._first = self.lowest

    def negative(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return minus the log-density, and minus its gradient."""
        value, gradient = self.density(theta)
        self.evaluations += 1
        if np.isfinite(value) and np.isfinite(gradient).all():
            if -value < self.lowest:
                self.lowest, self.at_lowest = -value, theta.copy()
            return -value, -gradient
        back = theta - self.at_lowest
        height = 1.0 + self._first - self.lowest
        return self.lowest + height, 2.0 * height * back / max(float(back @ back), 1e-300)


def curvature(density: Density, theta: np.ndarray, step: np.ndarray | float = STEP) -> np.ndarray:
    """Return minus the Hessian of the log-density, from central differences of its gradient: (dimension, dimension).

    `step` (dimension,): length of the differences in each direction.

    Raises ValueError if a gradient next to `theta` is not finite.
    """
    shifts = step * np.eye(len(theta))
    columns = [(density(theta - shift)[1] - density(theta + shift)[1]) / (2.0 * shift.sum()) for shift in shifts]
    return _symmetric(columns)


def _symmetric(columns: list[np.ndarray]) -> np.ndarray:
    found = np.reshape(columns, (len(columns), len(columns)))
    if not np.isfinite(found).all():
        raise ValueError("the gradient of the log-density is not finite beside its maximum")
    return 0.5 * (found + found.T)


class Polished(NamedTuple):
    """A maximum from Newton's method: `theta` (dimension,), and `curvature` (dimension, dimension) near it.

    If it has not `converged`, theta is where the method began, and the curvature is there.
    """

    theta: np.ndarray
    curvature: np.ndarray
    converged: bool = True


def polished(density: Density, start: np.ndarray, there: tuple[float, np.ndarray]) -> Polished:
    """Make the last steps to a maximum that is near: all use one curvature, from one-sided differences.

    This takes one gradient for each direction, and one for each step but the first: `there` has the log-density and its
    gradient at the start. It does not converge if steps do not become shorter, or lead to where the density is zero.

    Raises ValueError if a gradient next to the start is not finite.
    """
    theta, (value, gradient) = start, there
    found = _symmetric([(gradient - density(theta + shift)[1]) / STEP for shift in STEP * np.eye(len(theta))])
    scale, farthest = scale_at(found), np.inf
    for _ in range(MOST_STEPS):
        move = scale @ gradient
        distance = float(np.sqrt(move @ gradient / len(theta)))
        # Where the density is zero, the gradient may be zero, as at a maximum.
        if not np.isfinite(value) or not distance < farthest:
            break
        theta, farthest = theta + move, SHORTER * distance
        if distance < CLOSE:
            return Polished(theta, found)
        value, gradient = density(theta)
    return Polished(start, found, converged=False)


def student_at(theta: np.ndarray, curvature: np.ndarray) -> SplitStudent:
    """Return the t distribution with seven degrees of freedom whose scale matrix is the inverse of the curvature."""
    return SplitStudent.symmetric(theta, scale_at(curvature), DEGREES_OF_FREEDOM)


def scale_at(curvature: np.ndarray, units: np.ndarray | float = 1.0) -> np.ndarray:
    """Return the inverse of the curvature: (dimension, dimension).

    Directions in which the density is flat, or curved upwards as at a saddle, get a deviation of three `units`.
    """
    values, vectors = np.linalg.eigh(curvature * np.outer(units, units))
    scale = (vectors / np.maximum(values, SMALLEST_CURVATURE)) @ vectors.T
    return 0.5 * (scale + scale.T) * np.outer(units, units)
