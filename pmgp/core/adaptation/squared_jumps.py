"""Choose the length of trajectories by the expected squared jump, as in section 3 of the sparse MCMC article.

The article penalizes it by the square root of the largest number of leapfrog steps, and searches by Bayesian
optimization; here a few lengths take turns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.numerics.storable import storable


@storable
class SquaredJumps(NamedTuple):
    """Sums of squared jumps of candidate lengths.

    `candidates` (k,) of int: largest numbers of leapfrog steps; `totals`, `counts` (k,).
    """

    candidates: np.ndarray
    totals: np.ndarray
    counts: np.ndarray

    @classmethod
    def start(cls, largest: int) -> SquaredJumps:
        """Start with powers of two up to the largest length, and that length."""
        powers = 2 ** np.arange(1, max(int(np.log2(largest)), 0) + 1)
        candidates = np.unique(np.append(powers[powers <= largest], largest))
        return cls(candidates, np.zeros(len(candidates)), np.zeros(len(candidates)))

    @property
    def turn(self) -> int:
        """The length that has been tried least."""
        return int(self.candidates[np.argmin(self.counts)])

    def added(self, length: int, squared_jump: float) -> SquaredJumps:
        """Take in a transition."""
        here = self.candidates == length
        return SquaredJumps(self.candidates, self.totals + here * squared_jump, self.counts + here)

    @property
    def best(self) -> int:
        """The length of the largest mean squared jump over its square root; the largest where none was tried."""
        if not self.counts.any():
            return int(self.candidates[-1])
        means = self.totals / np.maximum(self.counts, 1.0)
        return int(self.candidates[np.argmax(means / np.sqrt(self.candidates))])
