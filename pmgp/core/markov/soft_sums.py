"""Precisions with a sum that is known up to an error: Q + w v v', whose dense part is never formed.

Its triangular factor is that of Q times one that two vectors describe (Gill, Golub, Murray and Saunders 1974, method
C1). Solutions and draws, also those that are made element by element, therefore cost as much as for Q.

In an intrinsic autoregression the differences and the sum have separate densities, so the precision P of the
differences is singular. P + w 1 1' is therefore written as Q + w v v', where one element of v is less than one, and the
row and the column of that element are dense in Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from pmgp.core.markov.loading import loop
from pmgp.core.markov.sparse import SparseFactor, SparsePattern, upper_triangle


@dataclass(frozen=True, eq=False)
class SoftSumFactor(SparseFactor):
    """The factor of Q + w v v'.

    `plain`: factor of Q; `weight`: w.
    """

    pattern: SoftSumPattern
    plain: SparseFactor
    weight: float

    def covariances(self) -> np.ndarray:
        """Return the elements of C = (Q + w v v')^-1 on the pattern, with Woodbury's identity, and v' C v."""
        pattern = self.pattern
        solved = self.plain.solve(pattern.direction)
        shrunk = 1.0 + self.weight * (along := float(pattern.direction @ solved))
        removed = SparsePattern.outer(pattern, solved, solved) * (self.weight / shrunk)
        return np.append(self.plain.covariances() - removed, along / shrunk)


class SoftSumPattern(SparsePattern):
    """The pattern of Q + w v v' with a sparse Q.

    The values of a precision are those of Q, and w at the end.

    `precision`, `design`, `coupled`: those of `SparsePattern`, for Q; `direction` (m,): v.
    """

    def __init__(
        self, precision: Any, design: Any = None, coupled: Sequence[Any] = (), *, direction: np.ndarray
    ) -> None:
        super().__init__(precision, design, coupled)
        self.direction = direction

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Pickle the arguments of the constructor."""
        return _made_of, (self._given, self.design, self.coupled, self.direction)

    def placed(self, upper: np.ndarray) -> np.ndarray:
        """Return the values, given those in the upper triangle of Q, by columns, with w at the end."""
        return np.append(super().placed(upper[:-1]), upper[-1])

    def factorize(self, values: np.ndarray) -> SoftSumFactor | None:
        """Return the factor of Q + w v v', or None if Q is indefinite."""
        plain, weight = super().factorize(values[:-1]), float(values[-1])
        if plain is None or not 0.0 <= weight < np.inf:
            return None
        direction = np.ascontiguousarray(self.direction[self.order], dtype=np.float64)
        loop("pattern.forward")(*self.columns, plain.values, direction)
        known = np.concatenate([[0.0], np.cumsum(np.square(direction[:-1]) / plain.pivots[:-1])])
        left = weight / (1.0 + weight * known)
        updated = plain.pivots + left * np.square(direction)
        return SoftSumFactor(self, plain.values, updated, direction, left * direction / updated, plain, weight)

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the values of Q + A' W A, and w."""
        return np.append(super().with_sites(values[:-1], precision), values[-1])

    def site_variances(self, covariances: np.ndarray) -> np.ndarray:
        """Return the diagonal of A C A': (n,)."""
        return self._by_site.T @ super().counted(covariances[:-1])

    def product(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return (Q + w v v') x: (m,)."""
        return super().product(values[:-1], x) + values[-1] * (self.direction @ x) * self.direction

    def outer(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the symmetric part of x y' on the pattern, and (v'x) (v'y)."""
        return np.append(super().outer(x, y), (self.direction @ x) * (self.direction @ y))

    def counted(self, values: np.ndarray) -> np.ndarray:
        """Return values times one for w and on the diagonal, and times two above the diagonal."""
        return np.append(super().counted(values[:-1]), values[-1])


def _made_of(precision: Any, design: Any, coupled: Sequence[Any], direction: np.ndarray) -> SoftSumPattern:
    return SoftSumPattern(precision, design, coupled, direction=direction)


def soft_sum(singular: Any, weight: float) -> tuple[SoftSumPattern, np.ndarray]:
    """Return the pattern and the values of P + w 1 1', for a P whose null space is spanned by a vector of ones.

    `singular` (m, m): P; `weight`: w.
    """
    number = singular.shape[0]
    chosen = int(np.argmax(singular.diagonal()))
    # The part is so small that Q stays positive definite, and so large that Q gives the sum as well as differences.
    part = min(1.0, 0.5 / (weight * number * _generalized_variance(singular, chosen)))
    direction = np.ones(number)
    direction[chosen] -= part
    row = sparse.csc_array((np.ones(number), (np.full(number, chosen), np.arange(number))), shape=(number, number))
    corner = sparse.csc_array(([1.0], ([chosen], [chosen])), shape=(number, number))
    proper = sparse.csc_array(singular + weight * part * (row + row.T - part * corner))
    pattern = SoftSumPattern(proper, direction=direction)
    return pattern, pattern.placed(np.append(upper_triangle(proper).data, weight))


def _generalized_variance(singular: Any, chosen: int) -> float:
    """Return a diagonal element of the pseudo-inverse of P, from P without the row and column of that element."""
    others = np.flatnonzero(np.arange(singular.shape[0]) != chosen)
    grounded = sparse.csc_matrix(sparse.csc_array(singular)[others][:, others])
    return float(splu(grounded).solve(np.ones(len(others))).sum() / singular.shape[0] ** 2)
