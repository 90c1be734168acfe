"""Parts of `core.numerics.block_shrinkage.ContrastShrinkage`.

Matrices are passed as their transposes, whose rows are LAPACK's columns; of triangles the lower one, in that sense.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    NOTHING,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    kernel,
)
from pmgp.core.numerics.compiled.inversion import inverted
from pmgp.core.numerics.compiled.routines import (
    LEFT,
    LOWER,
    NOT_TRANSPOSED,
    NOT_UNIT,
    ddot,
    dlauum,
    dpotrf,
    dtrmm,
)

__all__ = ["conditioned", "marginals"]


@kernel(NUMBER, ROWS, VECTOR, WRITTEN_ROWS, WRITTEN_ROWS)
def conditioned(
    covariance: np.ndarray,
    scale: np.ndarray,
    inverse: np.ndarray,
    weighted: np.ndarray,
) -> float:
    """Write the inverse of B's factor, and E; the log-determinant of B, not finite where B is indefinite.

    Parameters
    ----------
    covariance : (n, n) array
    scale : (n,) array
        D.
    inverse, weighted : (n, n) array
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
    total = 0.0
    for i in range(n):
        total += math.log(inverse[i, i])
    if not math.isfinite(total):
        return math.nan
    inverted(inverse)
    for j in range(n):
        weighted[j, j:] = inverse[j, j:]
    dlauum((LOWER, n, weighted, n))
    for j in range(n):
        root, others, column = roots[j], roots[j:], weighted[j, j:]
        for i in range(len(column)):
            column[i] *= root * others[i]
    return 2.0 * total


@kernel(NOTHING, ROWS, ROWS, ROWS, ROWS, WRITTEN_ROWS)
def marginals(
    weighted: np.ndarray,
    scale: np.ndarray,
    variance: np.ndarray,
    common: np.ndarray,
    found: np.ndarray,
) -> None:
    """Write the n blocks of S that belong to one site each.

    Parameters
    ----------
    weighted : (C n, n) array
        The E_c, one after another.
    scale, variance : (C, n) array
        D, and the diagonals of the K_c.
    common : (n, n) array
        Inverse of the factor of M.
    found : (n, C C) array
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
            # Beside a prior that leaves next to no variance, what the site takes from it is lost in rounding.
            found[i, c * number + c] = own if own > 0.0 else variance[c, i]
        dtrmm((LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, n, n, 1.0, common, n, shrunk, n))
        for other in range(c):
            for i in range(n):
                product = ddot((n, (solved, (c * n + i) * n), 1, (solved, (other * n + i) * n), 1))
                found[i, c * number + other] = product
                found[i, other * number + c] = product
        for i in range(n):
            found[i, c * number + c] += ddot((n, (solved, (c * n + i) * n), 1, (solved, (c * n + i) * n), 1))
