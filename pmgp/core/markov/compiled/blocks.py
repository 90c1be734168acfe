"""Block tridiagonal precisions: factors, solutions, covariances of neighbors, and draws backwards in time.

Q = L L' with a lower block bidiagonal L. A block of x given the next one is normal,

    x_t | x_{t+1} ~ N(mu_t - G_t (x_{t+1} - mu_{t+1}), V_t),

with V_t = R_t' R_t, where R_t is the inverse of L's diagonal block, and G_t = V_t Q_{t,t+1}. R and G are stored, and
everything else follows from them in O(T d^3) (Rue and Held 2005, section 2.4).
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import COUNTS, NOTHING, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, kernel

BLOCKS = types.Array(NUMBER, 3, "C", readonly=True)
WRITTEN_BLOCKS = types.Array(NUMBER, 3, "C")
WRITTEN_VECTOR = types.Array(NUMBER, 1, "C")
# Numbers in a line of the cache.
LINE = 8


@kernel(NUMBER, BLOCKS, BLOCKS, WRITTEN_BLOCKS, WRITTEN_BLOCKS)
def factorize(diagonal: np.ndarray, below: np.ndarray, inverse: np.ndarray, gain: np.ndarray) -> float:
    """Write R and G, and return the log-determinant of Q, or NaN if Q is indefinite.

    - diagonal (T, d, d): blocks Q_tt
    - below (T, d, d): blocks Q_{t,t-1}; the first is not used
    - inverse, gain (T, d, d)
    """
    number, d, _ = diagonal.shape
    schur = np.empty((d, d))
    total = 0.0
    for t in range(number):
        for i in range(d):
            for j in range(d):
                value = diagonal[t, i, j]
                if t > 0:
                    for k in range(d):
                        value -= below[t, i, k] * gain[t - 1, k, j]
                schur[i, j] = value
        for j in range(d):
            pivot = schur[j, j]
            for k in range(j):
                pivot -= schur[j, k] * schur[j, k]
            if not (pivot > 0.0 and pivot < math.inf):
                return math.nan
            total += math.log(pivot)
            root = math.sqrt(pivot)
            schur[j, j] = root
            for i in range(j + 1, d):
                value = schur[i, j]
                for k in range(j):
                    value -= schur[i, k] * schur[j, k]
                schur[i, j] = value / root
        for j in range(d):
            for i in range(d):
                if i < j:
                    inverse[t, i, j] = 0.0
                    continue
                value = 1.0 if i == j else 0.0
                for k in range(j, i):
                    value -= schur[i, k] * inverse[t, k, j]
                inverse[t, i, j] = value / schur[i, i]
        for j in range(d):
            for i in range(d):
                gain[t, i, j] = 0.0
            if t + 1 == number:
                continue
            # R' (R Q_{t,t+1}), a column at a time.
            for k in range(d):
                value = 0.0
                for i in range(k + 1):
                    value += inverse[t, k, i] * below[t + 1, j, i]
                for i in range(k + 1):
                    gain[t, i, j] += inverse[t, k, i] * value
    return total


@kernel(NOTHING, BLOCKS, BLOCKS, ROWS, WRITTEN_ROWS)
def solve(inverse: np.ndarray, gain: np.ndarray, right: np.ndarray, out: np.ndarray) -> None:
    """Write Q^-1 b.

    inverse, gain (T, d, d): R and G; right, out (T, d): b, and the solution.
    """
    number, d = right.shape
    for t in range(number):
        for i in range(d):
            value = right[t, i]
            if t > 0:
                for k in range(d):
                    value -= gain[t - 1, k, i] * out[t - 1, k]
            out[t, i] = value
    whitened = np.empty(d)
    for t in range(number - 1, -1, -1):
        for i in range(d):
            value = 0.0
            for k in range(i + 1):
                value += inverse[t, i, k] * out[t, k]
            whitened[i] = value
        for i in range(d):
            value = 0.0
            for k in range(i, d):
                value += inverse[t, k, i] * whitened[k]
            if t + 1 < number:
                for k in range(d):
                    value -= gain[t, i, k] * out[t + 1, k]
            out[t, i] = value


@kernel(NOTHING, BLOCKS, BLOCKS, WRITTEN_BLOCKS, WRITTEN_BLOCKS)
def neighbors(inverse: np.ndarray, gain: np.ndarray, variance: np.ndarray, below: np.ndarray) -> None:
    """Write the blocks of Q^-1 on Q's pattern, S_t = V_t + G_t S_{t+1} G_t' and S_{t+1,t} = -S_{t+1} G_t'.

    inverse, gain (T, d, d); variance, below (T, d, d): covariances of each block with itself and with the one before
    it.
    """
    number, d, _ = inverse.shape
    for i in range(d):
        for j in range(d):
            below[0, i, j] = 0.0
    for t in range(number - 1, -1, -1):
        if t + 1 < number:
            for i in range(d):
                for j in range(d):
                    value = 0.0
                    for k in range(d):
                        value -= variance[t + 1, i, k] * gain[t, j, k]
                    below[t + 1, i, j] = value
        for i in range(d):
            for j in range(i + 1):
                value = 0.0
                for k in range(i, d):
                    value += inverse[t, k, i] * inverse[t, k, j]
                if t + 1 < number:
                    for k in range(d):
                        value -= gain[t, i, k] * below[t + 1, k, j]
                variance[t, i, j] = value
                variance[t, j, i] = value


@kernel(NOTHING, BLOCKS, BLOCKS, ROWS, WRITTEN_BLOCKS)
def backward(inverse: np.ndarray, gain: np.ndarray, following: np.ndarray, values: np.ndarray) -> None:
    """Turn standard normals into draws of x - mu for successive blocks, given the block that follows them.

    - inverse, gain (s, d, d): R and G of these blocks
    - following (draws, d): draws of the block that follows; zeros where there is none
    - values (draws, s, d): normals, overwritten with the draws
    """
    draws, number, d = values.shape
    last = np.empty(d)
    for m in range(draws):
        for i in range(d):
            last[i] = following[m, i]
        for t in range(number - 1, -1, -1):
            for i in range(d):
                value = 0.0
                for k in range(i, d):
                    value += inverse[t, k, i] * values[m, t, k]
                for k in range(d):
                    value -= gain[t, i, k] * last[k]
                values[m, t, i] = value
            for i in range(d):
                last[i] = values[m, t, i]


@kernel(NOTHING, types.npy_rng, BLOCKS, BLOCKS, ROWS, WRITTEN_BLOCKS)
def grown(
    rng: np.random.Generator, inverse: np.ndarray, gain: np.ndarray, following: np.ndarray, values: np.ndarray
) -> None:
    """Write draws of x - mu for some blocks one after another, given the block that follows.

    The draws of an element are adjacent in memory, so the loop is vectorized. Normals come from NumPy's generator,
    whose own loop takes three times as long.

    - inverse, gain (s, d, d): inverse and gain of these blocks
    - following (d, draws): draws of the block that follows; zeros where there is none
    - values (s, d, draws)
    """
    number, d, draws = values.shape
    for t in range(number - 1, -1, -1):
        last = values[t + 1] if t + 1 < number else following
        for i in range(d):
            row = values[t, i]
            for m in range(draws):
                row[m] = rng.standard_normal()
        for i in range(d):
            row = values[t, i]
            for k in range(i, d):
                scale, normals = inverse[t, k, i], values[t, k]
                if k == i:
                    for m in range(len(row)):
                        row[m] *= scale
                else:
                    for m in range(len(row)):
                        row[m] += scale * normals[m]
            for k in range(d):
                weight, known = gain[t, i, k], last[k]
                for m in range(len(row)):
                    row[m] -= weight * known[m]


@kernel(NOTHING, COUNTS, ROWS, VECTOR, WRITTEN_BLOCKS)
def add_sites(where: np.ndarray, loading: np.ndarray, precision: np.ndarray, diagonal: np.ndarray) -> None:
    """Add w_i h_i h_i' to the diagonal block on which each site depends.

    where (n,) of int; loading (n, d): h_i; precision (n,); diagonal (T, d, d).
    """
    d = loading.shape[1]
    for site in range(len(where)):
        t, h = where[site], loading[site]
        for i in range(d):
            for j in range(d):
                diagonal[t, i, j] += precision[site] * h[i] * h[j]


@kernel(NOTHING, COUNTS, ROWS, BLOCKS, WRITTEN_VECTOR)
def site_variances(where: np.ndarray, loading: np.ndarray, variance: np.ndarray, out: np.ndarray) -> None:
    """Write h_i' S h_i for each site, where S is the covariance of the block on which it depends.

    Shapes: where (n,) of int; loading (n, d); variance (T, d, d); out (n,).
    """
    d = loading.shape[1]
    for site in range(len(where)):
        t, h = where[site], loading[site]
        total = 0.0
        for i in range(d):
            for j in range(d):
                total += h[i] * variance[t, i, j] * h[j]
        out[site] = total


@kernel(NOTHING, COUNTS, ROWS, BLOCKS, WRITTEN_ROWS)
def observe(where: np.ndarray, loading: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """Write h_i' x for each site and draw, where x is the block on which the site depends.

    Shapes: where (n,) of int; loading (n, d); values (draws, T, d); out (draws, n).
    """
    draws, d = values.shape[0], loading.shape[1]
    for m in range(draws):
        for site in range(len(where)):
            t, total = where[site], 0.0
            for i in range(d):
                total += loading[site, i] * values[m, t, i]
            out[m, site] = total


@kernel(NOTHING, COUNTS, ROWS, BLOCKS, WRITTEN_ROWS)
def observe_particles(where: np.ndarray, loading: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    """Write h_i' x for each site and draw, for draws that are adjacent in memory.

    Shapes: where (n,) of int; loading (n, d); values (T, d, draws); out (draws, n).
    """
    d, draws = values.shape[1:]
    for begin in range(0, len(where), LINE):
        # The values written for a draw share a line of the cache.
        end = min(begin + LINE, len(where))
        for m in range(draws):
            for site in range(begin, end):
                t, total = where[site], 0.0
                for i in range(d):
                    total += loading[site, i] * values[t, i, m]
                out[m, site] = total
