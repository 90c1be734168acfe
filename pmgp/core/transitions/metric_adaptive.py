"""Hamiltonian Monte Carlo of a few elements, such as theta, with the metric of their density.

This is sampler (d) of the article on several classes and sources, for comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from pmgp.core.adaptation.scaling import Scaling
from pmgp.core.numerics import linalg
from pmgp.core.transitions.adaptive import check_leapfrog, check_target
from pmgp.core.transitions.base import NOT_COMPUTED, MetricDensity, Point, TransitionInfo
from pmgp.core.transitions.riemannian import Solver, riemannian

# Step of the central differences of a metric, whose error is of the order of its square.
DIFFERENCE = 3e-5
DEFAULT_SOLVER = Solver()


class _FactorizedMetric:
    """G of a few rows with its derivatives, which are computed when they are first needed.

    `factor` (n, n): lower Cholesky factor; `position` (n,).
    """

    constant: ClassVar[bool] = False

    def __init__(self, factor: np.ndarray, density: _Differenced, position: np.ndarray) -> None:
        self.factor, self.density, self.position = factor, density, position

    @property
    def log_determinant(self) -> float:
        """Log|G|."""
        return linalg.log_determinant(self.factor)

    def momentum(self, rng: np.random.Generator) -> np.ndarray:
        """Draw from N(0, G)."""
        return linalg.triangular_product(self.factor, rng.standard_normal(len(self.factor)))

    def velocity(self, momentum: np.ndarray) -> np.ndarray:
        """Return G^-1 p."""
        return linalg.cholesky_solve(self.factor, momentum)

    def force(self, velocity: np.ndarray) -> np.ndarray:
        """Return (tr(G^-1 d_jG) - v'd_jG v) / 2 for each j."""
        return 0.5 * (self._traces - self._changes @ velocity @ velocity)

    @cached_property
    def _changes(self) -> np.ndarray:
        return self.density.metric_changes(self.position)

    @cached_property
    def _traces(self) -> np.ndarray:
        """tr(G^-1 d_jG) for each j."""
        inverse = linalg.symmetrized(linalg.inverse(self.factor))
        return np.einsum("jab,ab->j", self._changes, inverse)


class _Differenced:
    """A density with a metric, and the metric's derivatives from central differences."""

    def __init__(self, density: MetricDensity) -> None:
        self.density = density

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point with its value, and with the gradient on request."""
        return self.density.at(position, gradient)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density."""
        return self.density.gradient(position)

    def metric_at(self, position: np.ndarray) -> _FactorizedMetric | None:
        """Return G at a position."""
        return self.of(self.density.at(position))

    def of(self, point: Point) -> _FactorizedMetric | None:
        """Return G at a point; None where there is none."""
        complete = self.density.with_metric(point) if np.isfinite(point.log_density) else None
        return None if complete is None else _FactorizedMetric(complete.metric_factor, self, point.position)

    def metric_changes(self, position: np.ndarray) -> np.ndarray:
        """Return G's derivatives, (n, n, n), the position's axis first; NaN next to points where G does not exist."""
        shifts = DIFFERENCE * np.eye(position.size)
        return np.array([self._tensor(position + s) - self._tensor(position - s) for s in shifts]) / (2.0 * DIFFERENCE)

    def _tensor(self, position: np.ndarray) -> np.ndarray:
        metric = self.metric_at(position)
        if metric is None:
            return np.full((position.size, position.size), np.nan)
        lower = np.tril(metric.factor)
        return lower @ lower.T


@dataclass(frozen=True)
class RiemannianMonteCarlo:
    """Hamiltonian Monte Carlo with the density's own metric, for a vector of a few elements such as theta.

    The derivatives of the metric would need second derivatives of K. They are central differences instead: two metrics
    for each element in every leapfrog step. A step costs as much as many steps of other transitions; it is here for
    comparison.

    Parameters
    ----------
    target_acceptance : float
        Acceptance rate to which the step size is tuned.
    max_leapfrog : int
        The number of leapfrog steps is uniform from 1 to this value.
    solver : Solver
        Solver of the implicit steps. Below a tolerance of 1e-8 the errors of the differences dominate.
    """

    target_acceptance: float = 0.65
    max_leapfrog: int = 10
    solver: Solver = DEFAULT_SOLVER
    derivatives: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_target(self.target_acceptance)
        check_leapfrog(self.max_leapfrog)

    def start(self, dimension: int, length: int) -> Scaling:
        """Begin to learn the step size; coordinates stay as they are."""
        return Scaling.start(0.5 * dimension**-0.25, dimension, length)

    def step(
        self, rng: np.random.Generator, point: Point, density: MetricDensity, learned: Scaling
    ) -> tuple[Point, TransitionInfo]:
        """Follow one trajectory; the point stays if it has no metric."""
        differenced = _Differenced(density)
        metric = differenced.of(point)
        if metric is None:
            return point, TransitionInfo(False, 0.0, 1)
        begun = point._replace(metric_factor=metric)
        moved, info = riemannian(rng, begun, differenced, learned.step_size.value, self.max_leapfrog, self.solver)
        return point if moved is begun else moved._replace(metric_factor=NOT_COMPUTED), info

    def learn(self, learned: Scaling, point: Point, info: TransitionInfo) -> Scaling:
        """Take in the outcome of one tuning iteration."""
        return learned.updated(point.position, info.acceptance_rate, self.target_acceptance)

    def freeze(self, learned: Scaling) -> Scaling:
        """Return the constant that sampling uses."""
        return learned.frozen()
