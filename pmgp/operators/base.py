"""What the transitions share: points of a chain, the densities they move in, and the family's protocol.

A transition knows nothing of Gaussian processes. It moves a position in some coordinates, by a density that gives
the log-density, its gradient and a metric there; the same code serves the latent values and the hyper-parameters.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from pmgp.latent import DensePrior
from pmgp.likelihoods.base import Likelihood

__all__ = ["NOT_COMPUTED", "Density", "LatentOperator", "Point", "TransitionInfo", "metropolis_choice"]


NOT_COMPUTED = np.empty(0)


class Point(NamedTuple):
    """A position and what is known there, so that a rejected proposal costs nothing twice.

    Attributes
    ----------
    position : (n,) array
    log_density : float
        Up to a constant.
    payload : object
        What the position stands for: the latent values f of shape (n,), for densities over them.
    gradient : (n,) array
        Of the log-density; empty where the transition does not need it, as are the next two.
    metric_factor : (n, n) array
        Lower Cholesky factor of the metric tensor.
    metric_key : (n,) array
        What the metric depends on: one that has not changed is not factorized again.
    """

    position: np.ndarray
    log_density: float
    payload: Any
    gradient: np.ndarray = NOT_COMPUTED
    metric_factor: np.ndarray = NOT_COMPUTED
    metric_key: np.ndarray = NOT_COMPUTED


class TransitionInfo(NamedTuple):
    """What a transition did.

    Attributes
    ----------
    accepted : bool
    acceptance_rate : float
        Probability of acceptance, what the step size is tuned by.
    evaluations : int
        Evaluations of the likelihood or of its gradient.
    """

    accepted: bool
    acceptance_rate: float
    evaluations: int


class Density(Protocol):
    """A log-density over positions."""

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        """Value at a position, with the gradient where asked for."""
        ...

    def gradient(self, position: np.ndarray) -> np.ndarray:
        """Gradient of the log-density: (n,) -> (n,)."""
        ...


class LatentOperator(Protocol):
    """A transition that leaves p(f|theta, y) invariant.

    Attributes
    ----------
    target_acceptance : float
        Recommended acceptance rate, that the step size is tuned to.
    largest_step_size : float
    """

    target_acceptance: ClassVar[float]

    @property
    def largest_step_size(self) -> float:
        """Bound on the step size."""
        ...

    def initial_step_size(self, n: int) -> float:
        """Where tuning starts, for n latent values."""
        ...

    def prepare(self, prior: DensePrior, likelihood: Likelihood) -> Any:
        """Do the O(n^3) work at one theta; the result is handed to the other two."""
        ...

    def init(self, target: Any, f: np.ndarray) -> Point:
        """Start at latent values f of shape (n,)."""
        ...

    def restore(self, target: Any, point: Point) -> Point:
        """Complete a point that was stored without its metric."""
        ...

    def step(
        self, rng: np.random.Generator, point: Point, target: Any, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """One transition; f is the new point's payload."""
        ...


def metropolis_choice(
    rng: np.random.Generator, current: Point, candidate: Point, log_ratio: float, evaluations: int
) -> tuple[Point, TransitionInfo]:
    """Accept the candidate with probability min(1, exp(log_ratio)); what is not a number is rejected."""
    rate = float(np.exp(min(log_ratio, 0.0))) if log_ratio == log_ratio else 0.0
    accepted = rng.uniform() < rate
    return candidate if accepted else current, TransitionInfo(bool(accepted), rate, evaluations)
