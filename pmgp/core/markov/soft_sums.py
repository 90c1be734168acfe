"""Precisions with a sum that is known up to an error: Q + w 1 1', of which the dense part is never formed.

Q is that of an intrinsic autoregression, perhaps with sites: the differences of x have a density, and the sum has one
by itself. A triangular factor of the whole is that of Q times one that two vectors describe (Gill, Golub, Murray and
Saunders 1974, method C1), so that solutions and draws, element after element too, cost what they cost for Q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pmgp.core.markov.loading import loop
from pmgp.core.markov.sparse import SparseFactor, SparsePattern


@dataclass(frozen=True, eq=False)
class SoftSumFactor(SparseFactor):
    """Q + w 1 1', factorized.

    Attributes
    ----------
    grounded : SparseFactor
        Of Q with a number added to its last element.
    added : float
        That number.
    """

    pattern: SoftSumPattern
    grounded: SparseFactor
    added: float

    def covariances(self) -> np.ndarray:
        """Elements of (Q + w 1 1')^-1 on the pattern, by Woodbury's identity: as long as Q's values."""
        pattern, last = self.pattern, self.pattern.order[-1]
        ones, unit = np.ones(pattern.shape), np.zeros(pattern.shape)
        unit[last] = 1.0
        directions = np.stack([ones, unit])
        solved = np.stack([self.grounded.solve(one) for one in directions])
        small = np.diag([1.0 / self.pattern.weight, -1.0 / self.added]) + directions @ solved.T
        removed = np.linalg.solve(small, solved)
        return self.grounded.covariances() - sum(map(pattern.outer, removed, solved))


class SoftSumPattern(SparsePattern):
    """A sparse precision, and the sum of all elements beside it.

    Values are those of the sparse part.

    Parameters
    ----------
    precision, design : sparse arrays
        As of `SparsePattern`.
    weight : float
        Precision of the sum.
    """

    def __init__(self, precision: Any, design: Any = None, *, weight: float) -> None:
        super().__init__(precision, design)
        self.weight = weight

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """By what it was made of."""
        return _made_of, (self._given, self.design, self.weight)

    def factorize(self, values: np.ndarray) -> SoftSumFactor | None:
        """Factorize Q + w 1 1'; None where it is indefinite."""
        # Q alone may be singular, with a last pivot of zero. What is added to the last element is in that pivot alone.
        last = np.flatnonzero(self._on_diagonal)[self.order[-1]]
        added = float(np.abs(values[self._on_diagonal]).max())
        grounded = super().factorize(_with(values, last, values[last] + added))
        if grounded is None:
            return None
        pivots = _with(grounded.pivots, -1, grounded.pivots[-1] - added)
        direction = np.ones(self.shape)
        loop("pattern.forward")(*self.columns, grounded.values, direction)
        known = np.concatenate([[0.0], np.cumsum(np.square(direction[:-1]) / pivots[:-1])])
        left = self.weight / (1.0 + self.weight * known)
        updated = pivots + left * np.square(direction)
        if not (updated > 0.0).all():
            return None
        gains = left * direction / updated
        return SoftSumFactor(self, grounded.values, updated, direction, gains, grounded, added)

    def upper(self) -> None:
        """None: the sum of all is not among the values."""

    def product(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """(Q + w 1 1') x: (m,)."""
        return super().product(values, x) + self.weight * x.sum()


def _made_of(precision: Any, design: Any, weight: float) -> SoftSumPattern:
    return SoftSumPattern(precision, design, weight=weight)


def _with(values: np.ndarray, place: int, value: float) -> np.ndarray:
    changed = values.copy()
    changed[place] = value
    return changed
