"""The factor Q = L K D K' L' of a sparse precision: its inverse where L is not zero, and draws backwards.

L is unit lower triangular and given by columns, without its diagonal, rows in their order. So is K, with the elements
p_i g_j below its diagonal, which are zero but for a precision to which a rank of one is added.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    COUNTS,
    NOTHING,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    kernel,
)


@kernel(NOTHING, COUNTS, COUNTS, VECTOR, VECTOR, WRITTEN_VECTOR, WRITTEN_VECTOR)
def selected_inverse(
    starts: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray,
    pivots: np.ndarray,
    below: np.ndarray,
    diagonal: np.ndarray,
) -> None:
    """Write the elements of Q^-1 on L's pattern (Takahashi, Fagan and Chen 1973).

    Column after column from the last: S_ij = -sum_k S_ik L_kj over the pattern of column j, and S_jj = 1/D_j - sum_k
    L_kj S_kj. The pattern of a column is part of that of each column in it, so that all S_ik are known.

    Parameters
    ----------
    starts : (n + 1,) array of int
    rows : (nnz,) array of int
    values : (nnz,) array
        L below its diagonal.
    pivots : (n,) array
        D.
    below : (nnz,) array
    diagonal : (n,) array
    """
    n = len(pivots)
    factor, sums, column = np.zeros(n), np.zeros(n), np.full(n, -1)
    for j in range(n - 1, -1, -1):
        first, end = starts[j], starts[j + 1]
        for p in range(first, end):
            factor[rows[p]], sums[rows[p]], column[rows[p]] = values[p], 0.0, j
        for p in range(first, end):
            k = rows[p]
            scale, total = factor[k], factor[k] * diagonal[k]
            for q in range(starts[k], starts[k + 1]):
                i = rows[q]
                if column[i] == j:
                    sums[i] += scale * below[q]
                    total += factor[i] * below[q]
            sums[k] += total
        value = 1.0 / pivots[j]
        for p in range(first, end):
            below[p] = -sums[rows[p]]
            value -= values[p] * below[p]
        diagonal[j] = value


@kernel(NOTHING, COUNTS, COUNTS, VECTOR, VECTOR, VECTOR, VECTOR, COUNT, WRITTEN_ROWS)
def backward(
    starts: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray,
    pivots: np.ndarray,
    directions: np.ndarray,
    gains: np.ndarray,
    begin: int,
    draws: np.ndarray,
) -> None:
    """Turn standard normals into L^-T K^-T D^-1/2 z from the row `begin` up to the last that is given, those first.

    Parameters
    ----------
    starts, rows, values, pivots : arrays
        As of :func:`selected_inverse`.
    directions, gains : (n,) array
        p and g.
    begin : int
    draws : (n + 1, number) array
        Draws below the rows that `pivots` ends with, normals from `begin` to these; the last row is the sum of p times
        L' x over the draws, zeros at first.
    """
    number, sums = draws.shape[1], draws[-1]
    for j in range(len(pivots) - 1, begin - 1, -1):
        scale, gain, direction, row = 1.0 / math.sqrt(pivots[j]), gains[j], directions[j], draws[j]
        for m in range(number):
            row[m] = row[m] * scale - gain * sums[m]
            sums[m] += direction * row[m]
        for p in range(starts[j], starts[j + 1]):
            weight, known = values[p], draws[rows[p]]
            for m in range(len(known)):
                row[m] -= weight * known[m]


@kernel(NOTHING, COUNTS, COUNTS, VECTOR, WRITTEN_VECTOR)
def forward(starts: np.ndarray, rows: np.ndarray, values: np.ndarray, x: np.ndarray) -> None:
    """Write L^-1 b in place of b.

    Parameters
    ----------
    starts, rows, values : arrays
        As of :func:`selected_inverse`.
    x : (n,) array
        b, and the solution.
    """
    for j in range(len(x)):
        for p in range(starts[j], starts[j + 1]):
            x[rows[p]] -= values[p] * x[j]


@kernel(NOTHING, COUNTS, COUNTS, VECTOR, VECTOR, VECTOR, VECTOR, WRITTEN_VECTOR)
def solve(
    starts: np.ndarray,
    rows: np.ndarray,
    values: np.ndarray,
    pivots: np.ndarray,
    directions: np.ndarray,
    gains: np.ndarray,
    x: np.ndarray,
) -> None:
    """Write Q^-1 b in place of b.

    Parameters
    ----------
    starts, rows, values, pivots, directions, gains : arrays
        As of :func:`backward`.
    x : (n,) array
        b, and the solution.
    """
    n = len(pivots)
    known = 0.0
    for j in range(n):
        for p in range(starts[j], starts[j + 1]):
            x[rows[p]] -= values[p] * x[j]
    for j in range(n):
        x[j] -= directions[j] * known
        known += gains[j] * x[j]
    known = 0.0
    for j in range(n - 1, -1, -1):
        total = x[j] / pivots[j] - gains[j] * known
        known += directions[j] * total
        for p in range(starts[j], starts[j + 1]):
            total -= values[p] * x[rows[p]]
        x[j] = total
