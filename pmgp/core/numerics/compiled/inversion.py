"""Inverses of triangular matrices, and of matrices given their Cholesky factors: in place, with matrix products."""

from __future__ import annotations

import numpy as np

from pmgp.core.numerics.compiled.declaration import NOTHING, VECTOR, WRITTEN_ROWS, inlined, kernel
from pmgp.core.numerics.compiled.routines import LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, RIGHT, dtrmm

# Triangles of this size are inverted by loops here, and joined to larger ones by products.
SMALL_TRIANGLE = 16


@inlined
def inverted(factor: np.ndarray) -> None:
    """Replace L, given as its transpose, by L^-1."""
    n = len(factor)
    # Each small triangle, column by column from the last.
    for j in range(n - 1, -1, -1):
        stop = min(j - j % SMALL_TRIANGLE + SMALL_TRIANGLE, n)
        pivot = 1.0 / factor[j, j]
        for k in range(stop - 1, j, -1):
            entry, part, other = factor[j, k], factor[j, k + 1 : stop], factor[k, k + 1 : stop]
            for i in range(len(part)):
                part[i] += entry * other[i]
            factor[j, k] = entry * factor[k, k]
        part = factor[j, j + 1 : stop]
        for i in range(len(part)):
            part[i] *= -pivot
        factor[j, j] = pivot
    # The lower left block of L^-1 is -L_22^-1 L_21 L_11^-1.
    width = SMALL_TRIANGLE
    while width < n:
        for start in range(0, n - width, 2 * width):
            middle = start + width
            rows, across = min(width, n - middle), (factor, middle + start * n)
            first, second = (factor, start + start * n), (factor, middle + middle * n)
            dtrmm((RIGHT, LOWER, NOT_TRANSPOSED, NOT_UNIT, rows, width, -1.0, first, n, across, n))
            dtrmm((LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, rows, width, 1.0, second, n, across, n))
        width *= 2


@kernel(NOTHING, WRITTEN_ROWS)
def triangular_inverse(factor: np.ndarray) -> None:
    """Overwrite L with its inverse.

    factor (n, n): the transpose of L, whose rows are LAPACK's columns.
    """
    inverted(factor)


@kernel(NOTHING, WRITTEN_ROWS, VECTOR, WRITTEN_ROWS)
def inverse_with_sums(factor: np.ndarray, vector: np.ndarray, sums: np.ndarray) -> None:
    """Overwrite L with its inverse, whose rows are u_r, and write the sum of x_c u_c over c < r, plus x_r u_r / 2.

    factor (n, n): the transpose of L, whose rows are LAPACK's columns. vector (n,): x. sums (n, n): those of row r in
    column r. Both get zeros for elements above the diagonal of L.
    """
    inverted(factor)
    n = len(factor)
    for c in range(n):
        column, out = factor[c], sums[c]
        for r in range(c):
            column[r] = 0.0
            out[r] = 0.0
        total = 0.0
        for r in range(c, n):
            term = vector[r] * column[r]
            out[r] = total + 0.5 * term
            total += term
