"""The protocol of the transitions of f, and a check of their options."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.transitions.base import Point, TransitionInfo


class LatentUpdate(Protocol):
    """A transition that leaves p(f|theta, y) invariant.

    Attributes
    ----------
    target_acceptance : float
        Recommended acceptance rate, to which the step size is tuned.
    largest_step_size : float
    """

    target_acceptance: ClassVar[float]

    @property
    def largest_step_size(self) -> float:
        """Upper bound of the step size."""

    def initial_step_size(self, n: int) -> float:
        """Return the step size at which tuning starts, for n latent values."""

    def prepare(self, prior: Prior, likelihood: Likelihood) -> Any:
        """Do the O(n^3) work at one theta and return the other methods' `target`, or None if K is indefinite."""

    def init(self, target: Any, f: np.ndarray) -> Point:
        """Return the point at f of shape (n,); its log-density is minus infinity if a chain cannot start there."""

    def restore(self, target: Any, point: Point) -> Point:
        """Return a point that was stored without its metric, completed."""

    def step(
        self, rng: np.random.Generator, point: Point, target: Any, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition; return the new point, whose payload is f, and a report."""


def check_name(given: str, known: tuple[str, ...], argument: str) -> None:
    """Refuse an unknown name of an option."""
    if given not in known:
        raise ValueError(f"{argument} must be one of {', '.join(known)}, not {given!r}")
