"""A normal vector conditioned on Gaussian sites, and draws from the result (`core.numerics.conditioning`).

Matrices are passed as their transposes, whose rows are LAPACK's columns; triangles are lower in LAPACK's sense.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    FLAG,
    NOTHING,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    kernel,
)
from pmgp.core.numerics.compiled.routines import (
    LEFT,
    LOWER,
    NOT_TRANSPOSED,
    NOT_UNIT,
    TRANSPOSED,
    dpotrf,
    dpotrs,
    dsymm,
    dsymv,
    dtrmm,
    dtrmv,
    dtrsv,
)

# As in `core.gaussians.base`.
INFORMATIVE = 1e-8
# Precisions of sites, times variances of the prior, above which b' is so large that W^1/2 K b' loses digits.
SHARP = 1e6


@kernel(NOTHING, VECTOR, COUNT, FLAG, WRITTEN_ROWS)
def unpack(part: np.ndarray, first: int, mirrored: bool, upper: np.ndarray) -> None:
    """Write rows of an upper triangle, given one after another, into a matrix.

    part (size,); first: index of the first row; mirrored: whether to write columns of the lower triangle; upper (n, n).
    """
    start, n = 0, len(upper)
    for row in range(first, n):
        if start == len(part):
            break
        known, written = part[start : start + n - row], upper[row, row:]
        for i in range(len(written)):
            written[i] = known[i]
        if mirrored:
            column = upper[row:, row]
            for i in range(len(column)):
                column[i] = known[i]
        start += n - row


@kernel(COUNT, ROWS, WRITTEN_ROWS)
def factorize(covariance: np.ndarray, factor: np.ndarray) -> int:
    """Write the Cholesky factor; return the order of the first leading minor that is not positive, or 0.

    Shapes: covariance, factor (n, n).
    """
    n = len(factor)
    for j in range(n):
        known, column = covariance[j, j:], factor[j, j:]
        for i in range(len(column)):
            column[i] = known[i]
    order = dpotrf((LOWER, n, factor, n))
    # LAPACK lets NaN and infinite pivots through.
    for j in range(n):
        if order == 0 and not math.isfinite(factor[j, j]):
            order = j + 1
    return order


@kernel(NUMBER, ROWS, VECTOR, VECTOR, VECTOR, WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_ROWS)
def condition(
    covariance: np.ndarray,
    prior_mean: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    factor: np.ndarray,
    mean: np.ndarray,
    work: np.ndarray,
) -> float:
    """Write the factor of B and q's mean; return the log-determinant of B, or NaN if B is indefinite.

    Shapes: covariance (n, n); prior_mean, linear, precision (n,); factor (n, n); mean (n,); work (2, n).
    """
    n, sharpest = len(mean), 0.0
    for i in range(n):
        work[0, i] = math.sqrt(precision[i])
        work[1, i] = linear[i] - precision[i] * prior_mean[i]
        sharpest = max(sharpest, precision[i] * covariance[i, i])
    for j in range(n):
        scale, roots, known, column = work[0, j], work[0, j:], covariance[j, j:], factor[j, j:]
        for i in range(len(column)):
            column[i] = known[i] * scale * roots[i]
        column[0] += 1.0
    if dpotrf((LOWER, n, factor, n)) != 0:
        return math.nan
    total = 0.0
    for i in range(n):
        total += math.log(factor[i, i])
    if sharpest > SHARP:
        # With a = W^1/2 B^-1 W^-1/2 b', f is m + K a, or m + (b' - a) / w, which loses no digits where a site is sharp.
        for i in range(n):
            mean[i] = work[1, i] / work[0, i]
        dtrsv((LOWER, NOT_TRANSPOSED, NOT_UNIT, n, factor, n, mean, 1))
        dtrsv((LOWER, TRANSPOSED, NOT_UNIT, n, factor, n, mean, 1))
        for i in range(n):
            mean[i] *= work[0, i]
        dsymv((LOWER, n, 1.0, covariance, n, mean, 1, 0.0, work, 1))
        for i in range(n):
            sharp = precision[i] * covariance[i, i] > 1.0
            mean[i] = prior_mean[i] + ((work[1, i] - mean[i]) / precision[i] if sharp else work[0, i])
        return 2.0 * total
    dsymv((LOWER, n, 1.0, covariance, n, (work, n), 1, 0.0, mean, 1))
    for i in range(n):
        mean[i] *= work[0, i]
    dtrsv((LOWER, NOT_TRANSPOSED, NOT_UNIT, n, factor, n, mean, 1))
    dtrsv((LOWER, TRANSPOSED, NOT_UNIT, n, factor, n, mean, 1))
    for i in range(n):
        mean[i] = prior_mean[i] + mean[i] / work[0, i]
    return 2.0 * total


@kernel(FLAG, ROWS, ROWS, ROWS, VECTOR, WRITTEN_ROWS, WRITTEN_ROWS, WRITTEN_ROWS)
def deviations(
    prior_factor: np.ndarray,
    covariance: np.ndarray,
    factor: np.ndarray,
    precision: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    out: np.ndarray,
) -> bool:
    """Turn standard normals into draws of f - mean from q; return whether products with K were needed.

    prior_factor, covariance, factor (n, n): L, K and the factor of B; precision (n,); first, second (size, n): standard
    normals, overwritten; out (size, n): written.
    """
    size, n = out.shape
    least, root = math.inf, np.empty(n)
    for i in range(n):
        least = min(least, precision[i] * covariance[i, i])
        root[i] = math.sqrt(precision[i])
    if size == 1:
        dtrmv((LOWER, NOT_TRANSPOSED, NOT_UNIT, n, prior_factor, n, first, 1))
    else:
        dtrmm((LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, n, size, 1.0, prior_factor, n, first, n))
    for k in range(size):
        along, noise, row = first[k], second[k], out[k]
        for i in range(len(noise)):
            row[i] = noise[i]
            noise[i] += root[i] * along[i]
    dpotrs((LOWER, n, size, factor, n, second, n))
    if least >= INFORMATIVE:
        for k in range(size):
            solved, row = second[k], out[k]
            for i in range(len(row)):
                row[i] = (solved[i] - row[i]) / root[i]
        return False
    for k in range(size):
        solved = second[k]
        for i in range(len(solved)):
            solved[i] *= root[i]
    if size == 1:
        dsymv((LOWER, n, 1.0, covariance, n, second, 1, 0.0, out, 1))
    else:
        dsymm((LEFT, LOWER, n, size, 1.0, covariance, n, second, n, 0.0, out, n))
    for k in range(size):
        along, row = first[k], out[k]
        for i in range(len(row)):
            row[i] = along[i] - row[i]
    return True


@kernel(NUMBER, VECTOR, VECTOR, VECTOR, VECTOR, NUMBER)
def log_normalizer(
    prior_mean: np.ndarray, linear: np.ndarray, precision: np.ndarray, mean: np.ndarray, log_determinant: float
) -> float:
    """Return the log of the integral of the prior times the sites.

    prior_mean, linear, precision, mean (n,); log_determinant: log determinant of B.
    """
    total = 0.0
    for i in range(len(mean)):
        m, b, w = prior_mean[i], linear[i], precision[i]
        total += m * (b - 0.5 * w * m) + 0.5 * (b - w * m) * (mean[i] - m)
    return total - 0.5 * log_determinant


@kernel(NOTHING, VECTOR, VECTOR, ROWS, WRITTEN_VECTOR)
def log_sites(linear: np.ndarray, precision: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    """Write the sum of b_i f_i - w_i f_i^2 / 2 for each row f.

    Shapes: linear, precision (n,); f (size, n); out (size,).
    """
    for k in range(f.shape[0]):
        total = 0.0
        for i in range(len(linear)):
            total += (linear[i] - 0.5 * precision[i] * f[k, i]) * f[k, i]
        out[k] = total
