"""Parts of `core.numerics.block_shrinkage.ContrastShrinkage`.

Matrices are passed as their transposes, whose rows are LAPACK's columns; triangles are lower in LAPACK's sense.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import NOTHING, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, inlined, kernel
from pmgp.core.numerics.compiled.inversion import inverted
from pmgp.core.numerics.compiled.routines import (
    LEFT,
    LOWER,
    NOT_TRANSPOSED,
    NOT_UNIT,
    TRANSPOSED,
    ddot,
    dlauum,
    dpotrf,
    dsymm,
    dsymv,
    dtrmm,
    dtrmv,
)


@inlined
def _add_product(factor: float, matrix: np.ndarray, rows: np.ndarray, out: np.ndarray) -> None:
    """Add to `out` a multiple of the products of a symmetric matrix, given by a triangle, with rows."""
    k, n = rows.shape
    if k == 1:
        # The level-3 routine takes ten times as long for one column.
        dsymv((LOWER, n, factor, matrix, n, rows, 1, 1.0, out, 1))
    else:
        dsymm((LEFT, LOWER, n, k, factor, matrix, n, rows, n, 1.0, out, n))


@inlined
def _solve(inverse: np.ndarray, rows: np.ndarray) -> None:
    """Turn rows x into L^-T L^-1 x, given L^-1."""
    k, n = rows.shape
    if k == 1:
        dtrmv((LOWER, NOT_TRANSPOSED, NOT_UNIT, n, inverse, n, rows, 1))
        dtrmv((LOWER, TRANSPOSED, NOT_UNIT, n, inverse, n, rows, 1))
    else:
        dtrmm((LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, n, k, 1.0, inverse, n, rows, n))
        dtrmm((LEFT, LOWER, TRANSPOSED, NOT_UNIT, n, k, 1.0, inverse, n, rows, n))


@kernel(NUMBER, ROWS, VECTOR, WRITTEN_ROWS, WRITTEN_ROWS, WRITTEN_ROWS)
def conditioned(
    covariance: np.ndarray, scale: np.ndarray, inverse: np.ndarray, weighted: np.ndarray, total: np.ndarray
) -> float:
    """Write the inverse of B's factor, and E; return the log-determinant of B, or NaN if B is indefinite.

    - covariance (n, n)
    - scale (n,): D
    - inverse, weighted (n, n): written: the inverse of B's factor, and E
    - total (n, n): sum to which E is added
    """
    n = len(scale)
    roots = np.empty(n)
    for i in range(n):
        roots[i] = math.sqrt(scale[i])
    for j in range(n):
        root, others, known, column = roots[j], roots[j:], covariance[j, j:], inverse[j, j:]
        for i in range(len(column)):
            column[i] = known[i] * root * others[i]
        column[0] += 1.0
    if dpotrf((LOWER, n, inverse, n)) != 0:
        return math.nan
    log_root = 0.0
    for i in range(n):
        log_root += math.log(inverse[i, i])
    if not math.isfinite(log_root):
        return math.nan
    inverted(inverse)
    for j in range(n):
        weighted[j, j:] = inverse[j, j:]
    dlauum((LOWER, n, weighted, n))
    for j in range(n):
        root, others, column, summed = roots[j], roots[j:], weighted[j, j:], total[j, j:]
        for i in range(len(column)):
            column[i] *= root * others[i]
            summed[i] += column[i]
    return 2.0 * log_root


@kernel(NOTHING, ROWS, ROWS, ROWS, ROWS, WRITTEN_ROWS)
def marginals(
    weighted: np.ndarray, scale: np.ndarray, variance: np.ndarray, common: np.ndarray, found: np.ndarray
) -> None:
    """Write the blocks of S, one for each of the n sites.

    weighted (C n, n): the E_c, one after another; scale, variance (C, n): D, and the diagonals of the K_c; common (n,
    n): inverse of the factor of M; found (n, C C).
    """
    number, n = scale.shape
    solved = np.empty((number * n, n))
    for c in range(number):
        # D T = I - E D^-1, and its product with the inverse.
        shrunk, part, d = solved[c * n : (c + 1) * n], weighted[c * n : (c + 1) * n], scale[c]
        for j in range(n):
            for i in range(j, n):
                shrunk[j, i] = -part[j, i] / d[j]
                shrunk[i, j] = -part[j, i] / d[i]
            shrunk[j, j] += 1.0
        for i in range(n):
            own = shrunk[i, i] / d[i]
            # If D times the prior's variance is below rounding, `own` may be zero; the site then changes little.
            found[i, c * number + c] = own if own > 0.0 else variance[c, i]
        dtrmm((LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, n, n, 1.0, common, n, shrunk, n))
        for other in range(c):
            for i in range(n):
                product = ddot((n, (solved, (c * n + i) * n), 1, (solved, (other * n + i) * n), 1))
                found[i, c * number + other] = product
                found[i, other * number + c] = product
        for i in range(n):
            found[i, c * number + c] += ddot((n, (solved, (c * n + i) * n), 1, (solved, (c * n + i) * n), 1))


@kernel(NOTHING, ROWS, VECTOR, ROWS, ROWS, WRITTEN_ROWS)
def shrunk(covariance: np.ndarray, scale: np.ndarray, inverse: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
    """Add T_c x to rows.

    covariance (n, n): K_c; scale (n,): D_c; inverse (n, n): inverse of the factor of B_c; x, out (k, n).
    """
    k, n = x.shape
    solved, roots = np.zeros((k, n)), np.sqrt(scale)
    _add_product(1.0, covariance, x, solved)
    for j in range(k):
        row = solved[j]
        for i in range(len(row)):
            row[i] *= roots[i]
    _solve(inverse, solved)
    for j in range(k):
        row, found = solved[j], out[j]
        for i in range(len(row)):
            found[i] += row[i] / roots[i]


@kernel(NOTHING, ROWS, ROWS, ROWS, ROWS, WRITTEN_ROWS)
def balanced(weighted: np.ndarray, scale: np.ndarray, common: np.ndarray, u: np.ndarray, e: np.ndarray) -> None:
    """Write x + D 1 z of `ContrastShrinkage.drawn` in place of standard normals e, given draws u from the prior.

    weighted (C n, n): the E_c, one after another; scale (C, n): D; common (n, n): inverse of the factor of M; u, e (C
    k, n): the rows of each block, one after another.
    """
    number, n = scale.shape
    k = len(e) // number
    divided, summed = np.empty((k, n)), np.zeros((k, n))
    for c in range(number):
        d, roots = scale[c], np.sqrt(scale[c])
        for j in range(k):
            row, known, found = e[c * k + j], u[c * k + j], divided[j]
            for i in range(len(row)):
                found[i] = row[i] / roots[i] - known[i]
                row[i] = d[i] * found[i]
        _add_product(-1.0, weighted[c * n : (c + 1) * n], divided, summed)
    _solve(common, summed)
    for c in range(number):
        d = scale[c]
        for j in range(k):
            row, found = e[c * k + j], summed[j]
            for i in range(len(row)):
                row[i] += d[i] * found[i]
