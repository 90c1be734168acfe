"""The step size and the coordinates of a transition, learned while a chain tunes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.adaptation.moments import Moments
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.numerics.storable import storable

# Fractions of tuning at which the covariance of the draws since the previous one is adopted.
WINDOWS = (0.25, 0.5, 0.75)


@storable
class Scaling(NamedTuple):
    """A step size, and a factor F of the draws' covariance: x = F^-1 theta has about the same scale in all directions.

    `factor` (dimension, dimension): F, lower triangular; `moments`: moments of the positions since F was last changed;
    `length`: number of tuning iterations. What is learned is added to `moments` in place, so a state that has been
    updated is not to be used again.
    """

    step_size: StepSize
    factor: np.ndarray
    moments: Moments
    iteration: int
    length: int

    @classmethod
    def start(cls, step_size: float, dimension: int, length: int) -> Scaling:
        """Begin to learn, with the coordinates as they are."""
        return cls(StepSize.start(step_size), np.eye(dimension), Moments(dimension), 0, length)

    def updated(self, position: np.ndarray, acceptance_rate: float, target: float) -> Scaling:
        """Learn from one transition, which led to `position`."""
        self.moments.add(position)
        step_size = self.step_size.updated(acceptance_rate, target)
        return self._replace(step_size=step_size, iteration=self.iteration + 1)

    def visited(self, position: np.ndarray) -> Scaling:
        """Learn from the position that a transition of another kind has reached."""
        self.moments.add(position)
        return self._replace(iteration=self.iteration + 1)

    def rescaled(self, step_size: float) -> Scaling:
        """Adopt the covariance of the draws at the end of a window, and begin again with a step size that suits it."""
        if self.iteration not in [int(fraction * self.length) for fraction in WINDOWS]:
            return self
        factor = np.linalg.cholesky(self.moments.covariance())
        return self._replace(step_size=StepSize.start(step_size), factor=factor, moments=Moments(len(factor)))

    def frozen(self) -> Scaling:
        """Return the constant part that sampling uses."""
        return self._replace(step_size=self.step_size.settled())
