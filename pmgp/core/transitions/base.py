"""Points of a chain, densities that transitions move in, and the protocol of all transitions.

A transition knows nothing about Gaussian processes. It moves a position in some coordinates, using a density that gives
the log-density, its gradient and a metric; the same code serves the latent values and the hyper-parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pmgp.core.numerics.storable import storable

NOT_COMPUTED = np.empty(0)


@storable
class Point(NamedTuple):
    """A position with everything computed there, so that nothing is computed twice after a rejected proposal.

    Attributes
    ----------
    position : (n,) array
    log_density : float
        Up to a constant.
    payload : object
        The object that the position stands for, for example the latent values f of shape (n,).
    gradient : (n,) array
        Gradient of the log-density; empty if the transition does not need it, as are the next two.
    metric_factor : (n, n) array or object
        Lower Cholesky factor of the metric tensor, or a metric object.
    metric_key : (n,) array
        The values that determine the metric: if they have not changed, it is not factorized again.
    """

    position: np.ndarray
    log_density: float
    payload: Any
    gradient: np.ndarray = NOT_COMPUTED
    metric_factor: Any = NOT_COMPUTED
    metric_key: np.ndarray = NOT_COMPUTED


class TransitionInfo(NamedTuple):
    """Record of one transition.

    Attributes
    ----------
    acceptance_rate : float
        Probability of acceptance, with which the step size is tuned.
    evaluations : int
        Evaluations of the likelihood or of its gradient.
    component : int
        Index of the transition that a mixture has made.
    energy_error, step_size : float
        For a trajectory of Hamiltonian Monte Carlo; a non-finite error means that it diverged.
    proposed : pair, optional
        The proposed position, and the log-density there.
    """

    accepted: bool
    acceptance_rate: float
    evaluations: int
    component: int = 0
    energy_error: float = np.nan
    step_size: float = np.nan
    proposed: tuple[np.ndarray, float] | None = None


class Density(Protocol):
    """A log-density over positions."""

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Return the point at a position, with its value, and with the gradient on request."""

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Return the gradient of the log-density: (n,) -> (n,)."""


class MetricDensity(Density, Protocol):
    """A density with a metric tensor G(x)."""

    def with_metric(self, point: Point, known: Point | None = None) -> Point | None:
        """Add the factor of G to a point; `known` is a point whose metric may be the same."""


class AdaptiveTransition(Protocol):
    """A transition that leaves any density invariant, by detailed balance, and learns while a chain tunes.

    A transition that is invariant without detailed balance, such as a scan in a fixed order, may move theta given f,
    but not on a screen: the correction of a surrogate's moves assumes that they are reversible.

    The learned state is a separate value, which the chain keeps: the same transition serves several chains and
    densities.

    Attributes
    ----------
    derivatives : int
        Derivatives that it needs: 0 for values alone, 1 for the gradient, 2 for the gradient and a metric.
    """

    derivatives: ClassVar[int]

    def start(self, dimension: int, length: int) -> Any:
        """Return the state before tuning of `length` iterations."""

    def step(self, rng: np.random.Generator, point: Point, density: Any, learned: Any) -> tuple[Point, TransitionInfo]:
        """Make one transition.

        Parameters
        ----------
        point : Point
            Point of the density, with its gradient if `derivatives` > 0. The same object is returned if nothing moves.
        """

    def learn(self, learned: Any, point: Point, info: TransitionInfo) -> Any:
        """Take in the point and the report of a tuning iteration."""

    def freeze(self, learned: Any) -> Any:
        """Return the constant that sampling uses; a frozen state stays as it is."""
