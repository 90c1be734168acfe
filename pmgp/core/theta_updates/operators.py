"""Transitions of theta under any of its conditional densities, and how they learn while a chain tunes.

The operators of section 3 of the comparative evaluation, applied to theta: Metropolis, hybrid Monte Carlo and
simplified manifold MALA. The first two move in coordinates x with theta = F x, where F F' is the covariance of the
tuning draws; the third has its metric.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.moments import Moments
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.numerics.linalg import triangular_solve
from pmgp.core.transitions.base import NOT_COMPUTED, MetricDensity, Point, TransitionInfo
from pmgp.core.transitions.hamiltonian import hamiltonian
from pmgp.core.transitions.langevin import langevin
from pmgp.core.transitions.metropolis_hastings import random_walk

__all__ = ["OPERATORS", "Adaptation", "ThetaOperator"]

OPERATORS = ("metropolis", "hmc", "smmala")
# Section 4.1 of the article and the references there.
TARGETS = {"metropolis": 0.25, "hmc": 0.65, "smmala": 0.57}
# Fractions of tuning after which the covariance of the draws since the last time is taken over.
WINDOWS = (0.25, 0.5, 0.75)


class Adaptation(NamedTuple):
    """What an operator on theta has learned.

    Attributes
    ----------
    step_size : StepSize
    factor : (dimension, dimension) array
        F, lower triangular.
    moments : Moments
        Of theta, since F was last changed.
    iteration : int
    length : int
        Number of tuning iterations.
    """

    step_size: StepSize
    factor: np.ndarray
    moments: Moments
    iteration: int
    length: int


class _Scaled:
    """A density of theta in the coordinates x = F^-1 theta."""

    def __init__(self, density: MetricDensity, factor: np.ndarray) -> None:
        self.density = density
        self.factor = factor

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Value; the payload is the point of theta itself."""
        inner = self.density.at(self.factor @ position, gradient)
        slope = self.factor.T @ inner.gradient if gradient else NOT_COMPUTED
        return Point(position, inner.log_density, inner, slope)

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density."""
        return self.factor.T @ self.density.gradient(self.factor @ position)


@dataclass(frozen=True)
class ThetaOperator:
    """A transition of theta.

    Parameters
    ----------
    kind : {"metropolis", "hmc", "smmala"}
    target_acceptance : float, optional
        What the step size is tuned to; 0.25, 0.65 and 0.57 for the three.
    max_leapfrog : int
        Of hybrid Monte Carlo: the number of leapfrog steps is uniform from 1 to this one.

    Raises
    ------
    ValueError
        For settings that do not exist or are out of range.
    """

    kind: str = "metropolis"
    target_acceptance: float | None = None
    max_leapfrog: int = 10

    def __post_init__(self) -> None:
        if self.kind not in OPERATORS:
            raise ValueError(f"operator must be one of {', '.join(OPERATORS)}, not {self.kind!r}")
        if not isinstance(self.max_leapfrog, int | np.integer) or self.max_leapfrog < 1:
            raise ValueError(f"max_leapfrog must be an integer of at least 1, not {self.max_leapfrog}")
        if not 0.0 < self.target < 1.0:
            raise ValueError(f"target_acceptance must lie between 0 and 1, not {self.target_acceptance}")

    @property
    def target(self) -> float:
        """Acceptance rate that the step size is tuned to."""
        return TARGETS[self.kind] if self.target_acceptance is None else self.target_acceptance

    def start(self, dimension: int, length: int) -> Adaptation:
        """Begin to learn."""
        step_size = StepSize.start(self._initial_step_size(dimension))
        return Adaptation(step_size, np.eye(dimension), Moments(dimension), 0, length)

    def _initial_step_size(self, dimension: int) -> float:
        match self.kind:
            case "metropolis":
                return 2.4 / np.sqrt(dimension) * 0.5
            case "hmc":
                return 0.1 * dimension**-0.25
            case _:
                return dimension ** (-1.0 / 6.0)

    def learn(self, adaptation: Adaptation, theta: np.ndarray, acceptance_rate: float) -> Adaptation:
        """Take in the outcome of one tuning iteration."""
        step_size = adaptation.step_size.updated(acceptance_rate, self.target)
        adaptation.moments.add(theta)
        learned = adaptation._replace(step_size=step_size, iteration=adaptation.iteration + 1)
        due = learned.iteration in [int(fraction * learned.length) for fraction in WINDOWS]
        return self._rescaled(learned) if due and self.kind != "smmala" else learned

    def _rescaled(self, adaptation: Adaptation) -> Adaptation:
        factor = np.linalg.cholesky(adaptation.moments.covariance())
        dimension = len(factor)
        unit = 2.4 / np.sqrt(dimension) if self.kind == "metropolis" else dimension**-0.25
        return adaptation._replace(step_size=StepSize.start(unit), factor=factor, moments=Moments(dimension))

    def step(
        self,
        rng: np.random.Generator,
        theta: np.ndarray,
        density: MetricDensity,
        adaptation: Adaptation,
        tuning: bool,
    ) -> tuple[Point, TransitionInfo]:
        """Move theta.

        Parameters
        ----------
        rng : numpy.random.Generator
        theta : (dimension,) array
        density : MetricDensity
        adaptation : Adaptation
        tuning : bool
            Whether the chain still learns.

        Returns
        -------
        point : Point
            Of the density, at the new theta; its position is theta.
        info : TransitionInfo
        """
        step_size = adaptation.step_size.value if tuning else adaptation.step_size.frozen
        if self.kind == "smmala":
            return self._langevin(rng, theta, density, step_size)
        scaled = _Scaled(density, adaptation.factor)
        inner = density.at(theta, gradient=self.kind == "hmc")
        position = triangular_solve(adaptation.factor, theta)
        slope = adaptation.factor.T @ inner.gradient if self.kind == "hmc" else NOT_COMPUTED
        point = Point(position, inner.log_density, inner, slope)
        if self.kind == "hmc":
            moved, info = hamiltonian(rng, point, scaled, step_size, self.max_leapfrog)
        else:
            moved, info = random_walk(rng, point, scaled, step_size)
        return moved.payload, info

    def _langevin(
        self, rng: np.random.Generator, theta: np.ndarray, density: MetricDensity, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        point = density.at(theta, gradient=True)
        complete = density.with_metric(point)
        if complete is None:
            return point, TransitionInfo(False, 0.0, 1)
        return langevin(rng, complete, density, step_size)
