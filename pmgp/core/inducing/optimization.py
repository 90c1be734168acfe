"""Inducing inputs, a Gaussian q(v) and hyper-parameters, optimized with L-BFGS on the bound of the evidence.

As in Hensman et al. (2015), section 3, q(v) = N(m, C C') is optimized first, then together with all the others. The
bound is E_q log p(y|f) - KL[q(v) || N(0, I)] + log p(theta). L-BFGS moves in coordinates in which the initial q is
standard normal: the bound's Hessian in q is then about minus the identity, even if the scales of v differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import OptimizeResult, minimize

# If the bound is not defined, the line search gets the last bound less FALL times the largest gain of a step so far, or
# at least FALL nats. With a far lower value it would interpolate a step of length zero.
FALL = 4.0
# Number of times that L-BFGS restarts, in coordinates of the q that it has reached, after it met such a point.
BEGINNINGS = 10
# Gain of a start, in nats, below which no further start is tried.
GAIN = 1e-4
# Pairs of steps and gradients that L-BFGS keeps, and evaluations that a step may take.
PAIRS = 20
EVALUATIONS = 3


class Variational(NamedTuple):
    """The parameters that are optimized.

    `theta` (p,): hyper-parameters on the unconstrained scale; `inducing` (m, d): inducing inputs, Z; `mean` (k, m):
    mean of q(v), for each output; `factor` (k, m, m): C of each output, the covariance of q(v) being C C'.
    """

    theta: np.ndarray
    inducing: np.ndarray
    mean: np.ndarray
    factor: np.ndarray


class ExpectedLogDensity(NamedTuple):
    """E_q log p(y|f) + log p(theta) with its derivatives, each of the shape of its variable."""

    value: float
    gradient: Variational


Evaluate = Callable[[Variational], ExpectedLogDensity]


def bound(evaluate: Evaluate, at: Variational) -> ExpectedLogDensity:
    """Return the bound of log p(y|theta) + log p(theta), and its gradient.

    `evaluate`: maps the optimized values to an `ExpectedLogDensity`.
    """
    value, gradient = evaluate(at)
    squares = float(np.vdot(at.mean, at.mean) + np.vdot(at.factor, at.factor))
    divergence = 0.5 * (squares - at.mean.size) - float(np.linalg.slogdet(at.factor)[1].sum())
    inverse = np.linalg.inv(at.factor).transpose(0, 2, 1)
    slopes = gradient._replace(mean=gradient.mean - at.mean, factor=gradient.factor - at.factor + inverse)
    return ExpectedLogDensity(value - divergence, slopes)


@dataclass(frozen=True)
class VariationalCoordinates:
    """A vector of all optimized values: m = m0 + C0 e, C = C0 T with T lower triangular, theta, and Z in its own units.

    `theta`, `inducing`: whether these move too; `units` (d,): scales of the columns of Z.
    """

    origin: Variational
    theta: bool
    inducing: bool
    units: np.ndarray

    @property
    def start(self) -> np.ndarray:
        """The vector of the origin."""
        unit = np.broadcast_to(np.eye(self.origin.mean.shape[1]), self.origin.factor.shape)
        return self._joined(np.zeros_like(self.origin.mean), unit, self.origin.theta, self.origin.inducing / self.units)

    def at(self, vector: np.ndarray) -> Variational:
        """Return the parameters that a vector stands for."""
        origin, (k, m) = self.origin, self.origin.mean.shape
        sizes = [k * m, k * m * (m + 1) // 2, origin.theta.size if self.theta else 0]
        shift, elements, theta, inducing = np.split(vector, np.cumsum(sizes))
        triangle = np.zeros((k, m, m))
        triangle[:, *np.tril_indices(m)] = elements.reshape(k, -1)
        return Variational(
            theta if self.theta else origin.theta,
            inducing.reshape(origin.inducing.shape) * self.units if self.inducing else origin.inducing,
            origin.mean + np.einsum("kij,kj->ki", origin.factor, shift.reshape(k, m)),
            origin.factor @ triangle,
        )

    def gradient(self, slopes: Variational) -> np.ndarray:
        """Return the gradient in the vector, from the gradient in the values that it encodes."""
        shift = np.einsum("kij,ki->kj", self.origin.factor, slopes.mean)
        triangle = self.origin.factor.transpose(0, 2, 1) @ slopes.factor
        return self._joined(shift, triangle, slopes.theta, slopes.inducing * self.units)

    def _joined(self, shift: np.ndarray, triangle: np.ndarray, theta: np.ndarray, inducing: np.ndarray) -> np.ndarray:
        parts = [shift.ravel(), triangle[:, *np.tril_indices(triangle.shape[1])].ravel()]
        parts += [theta] if self.theta else []
        return np.concatenate([*parts, *([inducing.ravel()] if self.inducing else [])])


class Maximized(NamedTuple):
    """Maximum of the bound.

    `bounds` (s + 1,): the bound at the start and after each step; `message`: message of the optimizer.
    """

    at: Variational
    bounds: np.ndarray
    converged: bool
    message: str


def maximized(
    evaluate: Evaluate,
    start: Variational,
    *,
    theta: bool,
    inducing: bool,
    units: np.ndarray,
    iterations: int,
    report: Callable[[float], None],
) -> Maximized:
    """Maximize the bound over q, and over the other optimized values, with L-BFGS.

    `evaluate`: maps the optimized values to an `ExpectedLogDensity`; `start`: a point at which the bound is finite;
    `theta`, `inducing`: whether these move; `units` (d,): scale of the values in each column of Z; `report`: called
    with the bound after each step.
    """
    at, bounds = start, [bound(evaluate, start).value]
    for _ in range(BEGINNINGS):
        search = _Search(
            evaluate, VariationalCoordinates(at, theta and start.theta.size > 0, inducing, units), bounds, report
        )
        gained_from, left = bounds[-1], iterations - len(bounds) + 1
        at, success, message = search.run(left)
        if success or not search.obstructed or bounds[-1] < gained_from + GAIN:
            break
    return Maximized(at, np.array(bounds), success, message)


class _Search:
    """One run of L-BFGS; the bounds of its steps are appended to the list of bounds."""

    def __init__(
        self,
        evaluate: Evaluate,
        coordinates: VariationalCoordinates,
        bounds: list[float],
        report: Callable[[float], None],
    ) -> None:
        self.evaluate, self.coordinates, self.bounds, self.report = evaluate, coordinates, bounds, report
        self.obstructed = False
        """True if the last step had turned back from a place where the bound is not defined."""
        self._refused = False

    def run(self, iterations: int) -> tuple[Variational, bool, str]:
        """Return the end of the search, whether it is a maximum, and the optimizer's message."""
        if iterations < 1:
            return self.coordinates.origin, False, "the limit of iterations is reached"
        options: Any = {"maxiter": iterations, "maxfun": EVALUATIONS * iterations + 20, "maxcor": PAIRS}
        begun, start = self.bounds[-1], self.coordinates.start
        found = minimize(self._negative, start, jac=True, method="L-BFGS-B", callback=self._step, options=options)
        better = -found.fun > begun
        at = self.coordinates.at(found.x) if better else self.coordinates.origin
        self.obstructed |= self._refused
        message = "the bound is not defined near the end of the search" if self.obstructed else str(found.message)
        return at, bool(found.success) and not self.obstructed, message

    def _negative(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):
            value, slopes = _somewhere(self.evaluate, self.coordinates.at(vector))
        gradient = self.coordinates.gradient(slopes)
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            self._refused = True
            gains = np.diff(self.bounds)
            return -self.bounds[-1] + FALL * max(1.0, gains.max(initial=0.0)), np.zeros_like(vector)
        return -value, -gradient

    def _step(self, intermediate_result: OptimizeResult) -> None:
        self.obstructed, self._refused = self._refused, False
        self.bounds.append(-float(intermediate_result.fun))
        self.report(self.bounds[-1])


def _somewhere(evaluate: Evaluate, at: Variational) -> ExpectedLogDensity:
    """Return the bound; NaN if a covariance of q is singular."""
    try:
        return bound(evaluate, at)
    except np.linalg.LinAlgError:
        return ExpectedLogDensity(np.nan, at)
