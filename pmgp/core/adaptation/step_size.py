"""Step sizes that learn the recommended acceptance rate while a chain tunes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.numerics.storable import storable

GAIN = 2.0
DECAY = 0.6
AVERAGING = 0.75


@storable
class StepSize(NamedTuple):
    """Robbins-Monro on the log of the step size, and the average of its iterates.

    - `log_step`: log of the step size during tuning
    - `log_average`: log of the step size after tuning; later iterates weigh more, as in Hoffman and Gelman (2014)
    """

    log_step: float
    log_average: float
    largest: float = np.inf
    iteration: int = 0

    @classmethod
    def start(cls, initial: float, largest: float = np.inf) -> StepSize:
        """Begin at a step size."""
        return cls(float(np.log(initial)), float(np.log(initial)), largest)

    def updated(self, acceptance_rate: float, target: float) -> StepSize:
        """Learn from one transition: steps become longer if the acceptance rate exceeds the target."""
        iteration = self.iteration + 1
        moved = self.log_step + GAIN * iteration**-DECAY * (acceptance_rate - target)
        moved = min(moved, float(np.log(self.largest)))
        weight = iteration**-AVERAGING
        return StepSize(moved, weight * moved + (1.0 - weight) * self.log_average, self.largest, iteration)

    @property
    def value(self) -> float:
        """Step size during tuning."""
        return float(np.exp(self.log_step))

    @property
    def frozen(self) -> float:
        """Step size after tuning."""
        return float(np.exp(self.log_average))

    def settled(self) -> StepSize:
        """Return a step size whose value is the frozen one."""
        return StepSize(self.log_average, self.log_average, self.largest)
