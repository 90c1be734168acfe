"""Compare transitions by their squared jumps per unit of price."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.numerics.storable import storable


@storable
class JumpValues(NamedTuple):
    """Sums over transitions of one kind.

    `squares` (dimension,): sums of squared jumps.
    """

    squares: np.ndarray
    price: float
    turns: float

    @classmethod
    def start(cls, dimension: int) -> JumpValues:
        """Return sums that count no transition."""
        return cls(np.zeros(dimension), 0.0, 0.0)

    def added(self, jump: np.ndarray, price: float) -> JumpValues:
        """Add a transition, given its displacement, of shape (dimension,), and its price."""
        return JumpValues(self.squares + jump**2, self.price + price, self.turns + 1.0)

    def weighted(self, weight: float) -> JumpValues:
        """Return the sums of a transition that is made `weight` times on average."""
        if self.turns == 0:
            return self
        return JumpValues(weight * self.squares / self.turns, weight * self.price / self.turns, weight)

    def joined(self, other: JumpValues) -> JumpValues:
        """Return the sums of two kinds of transitions together."""
        return JumpValues(self.squares + other.squares, self.price + other.price, self.turns + other.turns)

    def efficiency(self, variance: np.ndarray) -> float:
        """Return effective draws per unit of price, of the element that moves least for its `variance`, (dimension,).

        A stationary chain with a lag-one autocorrelation of r has a mean squared jump of 2 (1 - r) variances, and
        (1 - r) / (1 + r) effective draws per transition if the correlation falls geometrically; at most one is counted.
        """
        if self.turns == 0:
            return 0.0
        fraction = min(float(np.min(self.squares / self.turns / (2.0 * variance))), 1.0)
        return fraction / (2.0 - fraction) * self.turns / self.price
