"""The protocol of the transitions of f."""

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
        ...

    def initial_step_size(self, n: int) -> float:
        """Return the step size at which tuning starts, for n latent values."""
        ...

    def prepare(self, prior: Prior, likelihood: Likelihood) -> Any:
        """Do the O(n^3) work at one theta; the other methods get the result as `target`. None where K is indefinite."""
        ...

    def init(self, target: Any, f: np.ndarray) -> Point:
        """Start at latent values f of shape (n,); the log-density is minus infinity if that is impossible."""
        ...

    def restore(self, target: Any, point: Point) -> Point:
        """Complete a point that was stored without its metric."""
        ...

    def step(
        self, rng: np.random.Generator, point: Point, target: Any, step_size: float
    ) -> tuple[Point, TransitionInfo]:
        """Make one transition; f is the new point's payload."""
        ...
