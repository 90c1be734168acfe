"""Algebra of matrices of a few rows, one for each site, which are stored as vectors, row by row."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import inlined

# Jacobi's method: largest share of the squares off the diagonal in all, and largest number of sweeps.
NEGLIGIBLE = 1e-32
MAX_SWEEPS = 30


@inlined
def factorized(d: int, matrix: np.ndarray, factor: np.ndarray) -> float:
    """Write the lower Cholesky factor; return the log-determinant, minus infinity if a pivot is not positive."""
    total = 0.0
    for e in range(d):
        for g in range(e + 1):
            rest = matrix[e * d + g]
            for h in range(g):
                rest -= factor[e * d + h] * factor[g * d + h]
            if g < e:
                factor[e * d + g] = rest / factor[g * d + g]
            elif rest <= 0.0:
                return -math.inf
            else:
                factor[e * d + e] = math.sqrt(rest)
                total += math.log(rest)
    return total


@inlined
def triangular_inverse_from(d: int, factor: np.ndarray, inverse: np.ndarray) -> None:
    """Write the lower triangle of L^-1."""
    for e in range(d):
        inverse[e * d + e] = 1.0 / factor[e * d + e]
        for g in range(e):
            product = 0.0
            for h in range(g, e):
                product += factor[e * d + h] * inverse[h * d + g]
            inverse[e * d + g] = -product * inverse[e * d + e]


@inlined
def inverse_from(d: int, factor: np.ndarray, scratch: np.ndarray, inverse: np.ndarray) -> None:
    """Write (L L')^-1, both triangles."""
    triangular_inverse_from(d, factor, scratch)
    for e in range(d):
        for g in range(e + 1):
            product = 0.0
            for h in range(e, d):
                product += scratch[h * d + e] * scratch[h * d + g]
            inverse[e * d + g], inverse[g * d + e] = product, product


@inlined
def quadratic(d: int, matrix: np.ndarray, x: np.ndarray) -> float:
    """Return x' A x."""
    total = 0.0
    for e in range(d):
        product = 0.0
        for g in range(d):
            product += matrix[e * d + g] * x[g]
        total += x[e] * product
    return total


@inlined
def projected(rows: np.ndarray, matrix: np.ndarray, scratch: np.ndarray, out: np.ndarray) -> None:
    """Write R A R' for rows R and a symmetric A."""
    d, size = rows.shape
    for e in range(d):
        row = rows[e]
        for g in range(size):
            product = 0.0
            for h in range(size):
                product += row[h] * matrix[h * size + g]
            scratch[g] = product
        for g in range(e + 1):
            product = 0.0
            for h in range(size):
                product += scratch[h] * rows[g, h]
            out[e * d + g], out[g * d + e] = product, product


@inlined
def _rotate(cosine: float, sine: float, first: np.ndarray, second: np.ndarray) -> None:
    """Turn two rows or columns in their plane."""
    for h in range(len(first)):
        x, y = first[h], second[h]
        first[h], second[h] = cosine * x - sine * y, sine * x + cosine * y


@inlined
def bounded(d: int, smallest: float, matrix: np.ndarray, scratch: np.ndarray, vectors: np.ndarray) -> None:
    """Raise eigenvalues below the smallest one allowed to that value, in place; NaN stays NaN."""
    for e in range(d):
        for g in range(d):
            scratch[e * d + g] = matrix[e * d + g]
        scratch[e * d + e] -= smallest
    if factorized(d, scratch, vectors) != -math.inf:
        return
    # Jacobi's method turns the matrix into its eigenvalues.
    for e in range(d):
        for g in range(d):
            scratch[e * d + g], vectors[e * d + g] = matrix[e * d + g], 1.0 if e == g else 0.0
    for _ in range(MAX_SWEEPS):
        own, across = 0.0, 0.0
        for e in range(d):
            own += scratch[e * d + e] ** 2
            for g in range(e):
                across += scratch[e * d + g] ** 2
        if across <= NEGLIGIBLE * own:
            break
        for e in range(1, d):
            for g in range(e):
                if scratch[e * d + g] == 0.0:
                    continue
                ratio = 0.5 * (scratch[e * d + e] - scratch[g * d + g]) / scratch[e * d + g]
                tangent = math.copysign(1.0, ratio) / (abs(ratio) + math.hypot(ratio, 1.0))
                cosine = 1.0 / math.hypot(tangent, 1.0)
                sine = tangent * cosine
                _rotate(cosine, sine, scratch[g::d], scratch[e::d])
                _rotate(cosine, sine, scratch[g * d : (g + 1) * d], scratch[e * d : (e + 1) * d])
                _rotate(cosine, sine, vectors[g::d], vectors[e::d])
    for e in range(d):
        for g in range(e + 1):
            product = 0.0
            for h in range(d):
                product += vectors[e * d + h] * max(scratch[h * d + h], smallest) * vectors[g * d + h]
            matrix[e * d + g], matrix[g * d + e] = product, product
