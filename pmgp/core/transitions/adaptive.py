"""Transitions that learn a step size, and coordinates, while a chain tunes.

These are the operators of section 3 of the comparative evaluation for a vector of a few elements, such as theta:
Metropolis, hybrid Monte Carlo and simplified manifold MALA. The first two move in coordinates x with theta = F x, where
F F' is the covariance of the tuning draws; the third uses the density's metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.adaptation.scaling import Scaling
from pmgp.core.numerics.arrays import is_whole
from pmgp.core.numerics.linalg import triangular_solve
from pmgp.core.numerics.storable import storable
from pmgp.core.transitions.base import NOT_COMPUTED, Density, MetricDensity, Point, TransitionInfo
from pmgp.core.transitions.hamiltonian import hamiltonian
from pmgp.core.transitions.langevin import langevin
from pmgp.core.transitions.metropolis_hastings import Proposed, metropolis_hastings


def check_target(target_acceptance: float) -> None:
    """Refuse a target acceptance rate outside (0, 1)."""
    if not 0.0 < target_acceptance < 1.0:
        raise ValueError(f"target_acceptance must lie between 0 and 1, not {target_acceptance}")


def check_leapfrog(max_leapfrog: int) -> None:
    """Refuse a largest number of leapfrog steps that is not a positive integer."""
    if not is_whole(max_leapfrog):
        raise ValueError(f"max_leapfrog must be an integer of at least 1, not {max_leapfrog}")


class _Scaled:
    """Base class of transitions that learn a `Scaling`."""

    target_acceptance: float

    def __post_init__(self) -> None:
        check_target(self.target_acceptance)

    def freeze(self, learned: Scaling) -> Scaling:
        """Return the constant that sampling uses."""
        return learned.frozen()


@storable
@dataclass(frozen=True)
class RandomWalk(_Scaled):
    """Metropolis with the covariance of the tuning draws (section 3.1 of the comparative evaluation).

    Parameters
    ----------
    target_acceptance : float
        Acceptance rate to which the step size is tuned; the articles use 20 to 30 %.

    Raises
    ------
    ValueError
        For a rate that is not between 0 and 1.
    """

    target_acceptance: float = 0.25
    derivatives: ClassVar[int] = 0

    def start(self, dimension: int, length: int) -> Scaling:
        """Begin to learn."""
        return Scaling.start(2.4 / np.sqrt(dimension) * 0.5, dimension, length)

    def propose(self, rng: np.random.Generator, position: np.ndarray, learned: Scaling) -> Proposed:
        """Draw a position near the one given: x' = x + step_size e."""
        noise = rng.standard_normal(position.shape)
        x = triangular_solve(learned.factor, position) + learned.step_size.value * noise
        return Proposed(learned.factor @ x)

    def step(
        self, rng: np.random.Generator, point: Point, density: Density, learned: Scaling
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition."""
        return metropolis_hastings(rng, point, density, self.propose(rng, point.position, learned))

    def learn(self, learned: Scaling, point: Point, info: TransitionInfo) -> Scaling:
        """Take in the outcome of one tuning iteration."""
        learned = learned.updated(point.position, info.acceptance_rate, self.target_acceptance)
        return learned.rescaled(2.4 / np.sqrt(len(point.position)))


@storable
@dataclass(frozen=True)
class HamiltonianMonteCarlo(_Scaled):
    """Hybrid Monte Carlo with the tuning draws' covariance as inverse mass matrix (section 3.2 of the evaluation).

    A unit mass in x = F^-1 theta is the mass matrix (F F')^-1 in theta (Algorithm 4).

    Parameters
    ----------
    target_acceptance : float
        Acceptance rate to which the step size is tuned.
    max_leapfrog, min_leapfrog : int
        The number of leapfrog steps is uniform between these two.
    learns_mass : bool
        Whether to use the covariance of the draws; otherwise the mass matrix stays the identity.
    """

    target_acceptance: float = 0.65
    max_leapfrog: int = 10
    min_leapfrog: int = 1
    learns_mass: bool = True
    derivatives: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_leapfrog(self.max_leapfrog)
        if not is_whole(self.min_leapfrog) or self.min_leapfrog > self.max_leapfrog:
            raise ValueError(
                f"min_leapfrog must be an integer from 1 to max_leapfrog={self.max_leapfrog}, not {self.min_leapfrog}"
            )

    def start(self, dimension: int, length: int) -> Scaling:
        """Begin to learn."""
        return Scaling.start(0.1 * dimension**-0.25, dimension, length)

    def step(
        self, rng: np.random.Generator, point: Point, density: Density, learned: Scaling
    ) -> tuple[Point, TransitionInfo]:
        """Follow one trajectory."""
        position = triangular_solve(learned.factor, point.position)
        scaled = Point(position, point.log_density, point, learned.factor.T @ point.gradient)
        coordinates = _Coordinates(density, learned.factor)
        leapfrog = self.max_leapfrog, self.min_leapfrog
        moved, info = hamiltonian(rng, scaled, coordinates, learned.step_size.value, *leapfrog)
        return moved.payload, info

    def learn(self, learned: Scaling, point: Point, info: TransitionInfo) -> Scaling:
        """Take in the outcome of one tuning iteration."""
        learned = learned.updated(point.position, info.acceptance_rate, self.target_acceptance)
        return learned.rescaled(len(point.position) ** -0.25) if self.learns_mass else learned

    def visit(self, learned: Scaling, point: Point) -> Scaling:
        """Take in the position to which a tuning iteration of another kind has led."""
        visited = learned.visited(point.position)
        return visited.rescaled(len(point.position) ** -0.25) if self.learns_mass else visited


@storable
@dataclass(frozen=True)
class ManifoldLangevin(_Scaled):
    """Langevin proposals with a metric that depends on the position (Algorithm 2 of the comparative evaluation).

    Parameters
    ----------
    target_acceptance : float
        Acceptance rate to which the step size is tuned.

    Raises
    ------
    ValueError
        For a rate that is not between 0 and 1.
    """

    target_acceptance: float = 0.57
    derivatives: ClassVar[int] = 2

    def start(self, dimension: int, length: int) -> Scaling:
        """Begin to learn the step size; coordinates stay as they are."""
        return Scaling.start(dimension ** (-1.0 / 6.0), dimension, length)

    def step(
        self, rng: np.random.Generator, point: Point, density: MetricDensity, learned: Scaling
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition; the point stays if it has no metric."""
        complete = point if np.size(point.metric_factor) else density.with_metric(point)
        if complete is None:
            return point, TransitionInfo(False, 0.0, 1)
        return langevin(rng, complete, density, learned.step_size.value)

    def learn(self, learned: Scaling, point: Point, info: TransitionInfo) -> Scaling:
        """Take in the outcome of one tuning iteration."""
        return learned.updated(point.position, info.acceptance_rate, self.target_acceptance)


class _Coordinates:
    """A density in the coordinates x = F^-1 theta; the payload is the point of theta itself."""

    def __init__(self, density: Density, factor: np.ndarray) -> None:
        self.density = density
        self.factor = factor

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point with its value, and with the gradient on request."""
        inner = self.density.at(self.factor @ position, gradient)
        slope = self.factor.T @ inner.gradient if gradient else NOT_COMPUTED
        return Point(position, inner.log_density, inner, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density."""
        return self.factor.T @ self.density.gradient(self.factor @ position)
