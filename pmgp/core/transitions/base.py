"""Points of a chain, densities that transitions move in, and the protocol of all transitions.

A transition knows nothing of Gaussian processes. It moves a position in some coordinates, by a density that gives
the log-density, its gradient and a metric there; the same code serves the latent values and the hyper-parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pmgp.core.numerics.storable import storable

__all__ = ["NOT_COMPUTED", "AdaptiveTransition", "Density", "MetricDensity", "Point", "TransitionInfo"]


NOT_COMPUTED = np.empty(0)


@storable
class Point(NamedTuple):
    """A position with everything computed there, so that a rejected proposal costs nothing twice.

    Attributes
    ----------
    position : (n,) array
    log_density : float
        Up to a constant.
    payload : object
        What the position stands for: the latent values f of shape (n,), for densities over them.
    gradient : (n,) array
        Of the log-density; empty where the transition does not need it, as are the next two.
    metric_factor : (n, n) array or object
        Lower Cholesky factor of the metric tensor, or the metric itself where it is not known by one.
    metric_key : (n,) array
        What the metric depends on: one that has not changed is not factorized again.
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
    accepted : bool
    acceptance_rate : float
        Probability of acceptance, what the step size is tuned by.
    evaluations : int
        Evaluations of the likelihood or of its gradient.
    component : int
        Of a mixture: which of its transitions was made.
    energy_error, step_size : float
        Of a trajectory of Hamiltonian Monte Carlo; what is not finite has diverged.
    proposed : pair, optional
        Of a proposal: the position, and the log-density there.
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
        """Value at a position, with the gradient where asked for."""
        ...

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density: (n,) -> (n,)."""
        ...


class MetricDensity(Density, Protocol):
    """A density with a metric tensor G(x)."""

    def with_metric(self, point: Point, known: Point | None = None) -> Point | None:
        """Add the factor of G to a point; `known` is one whose metric may be the same."""
        ...


class AdaptiveTransition(Protocol):
    """A transition that leaves any density invariant, by detailed balance, and learns while a chain tunes.

    What is invariant without it, as a scan in one order, may move theta beside f, but not on a screen: the correction
    of a surrogate's moves takes them for reversible.

    What it has learned is a value of a kind of its own, which the chain keeps for it: the same transition serves
    several chains and densities.

    Attributes
    ----------
    derivatives : int
        What it needs of a density: 0 for its values, 1 for its gradient, 2 for a metric besides.
    """

    derivatives: ClassVar[int]

    def start(self, dimension: int, length: int) -> Any:
        """Return the state before tuning of `length` iterations."""
        ...

    def step(self, rng: np.random.Generator, point: Point, density: Any, learned: Any) -> tuple[Point, TransitionInfo]:
        """One transition.

        Parameters
        ----------
        rng : numpy.random.Generator
        point : Point
            Of the density, with its gradient if there are `derivatives`; the very same if nothing has moved.
        density : Density or MetricDensity
        learned : object
        """
        ...

    def learn(self, learned: Any, point: Point, info: TransitionInfo) -> Any:
        """Take in where a tuning iteration has led, and how."""
        ...

    def freeze(self, learned: Any) -> Any:
        """Return the constant that sampling uses; a frozen state stays as it is."""
        ...
