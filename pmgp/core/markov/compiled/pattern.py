"""Solutions and draws with the factor Q = L K D K' L' of a sparse precision.

L is unit lower triangular, and given by columns without its diagonal, with rows in increasing order. K is unit lower
triangular with the elements p_i g_j below its diagonal, which are zero unless a matrix of rank one is added to the
precision.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import COUNT, COUNTS, NOTHING, VECTOR, WRITTEN_ROWS, WRITTEN_VECTOR, kernel


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
    """Turn standard normals z into L^-T K^-T D^-1/2 z, from the last of the given rows back to row `begin`.

    - starts (n + 1,) of int
    - rows (nnz,) of int
    - values (nnz,): L below its diagonal
    - pivots (n,): D
    - directions, gains (n,): p and g
    - draws (n + 1, number): normals in the rows from `begin` to the end of `pivots`, and draws in the rows after them.
      The last row is the sum of p times L' x over the rows that are drawn; it begins with zeros
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

    - starts, rows, values: as for :func:`backward`
    - x (n,): b, and the solution
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

    - starts, rows, values, pivots, directions, gains: as for :func:`backward`
    - x (n,): b, and the solution
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
