"""Factors of a precision that is given by transitions between states, and sites that observe the states.

x_t = F_t x_{t-1} + noise with covariance S_t, and sites with precisions w_t observe h'x_t. The precision itself, whose
blocks are sums of S_t^-1 and F'S^-1 F, loses digits if the steps of the process are short. Covariances of each state
given the previous ones lose none (Kalman filter, Joseph's form).
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.markov.compiled.blocks import BLOCKS, WRITTEN_BLOCKS
from pmgp.core.numerics.compiled.declaration import NOTHING, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, kernel


@kernel(NOTHING, WRITTEN_ROWS, WRITTEN_ROWS)
def solve(matrix: np.ndarray, right: np.ndarray) -> None:
    """Write the solution X of A X = B in place of B, with pivoted elimination; A is overwritten.

    matrix (d, d): A; right (d, k): B, and the solution.
    """
    d = len(matrix)
    for j in range(d):
        best = j
        for i in range(j + 1, d):
            if abs(matrix[i, j]) > abs(matrix[best, j]):
                best = i
        for k in range(d):
            matrix[j, k], matrix[best, k] = matrix[best, k], matrix[j, k]
        for k in range(right.shape[1]):
            right[j, k], right[best, k] = right[best, k], right[j, k]
        for i in range(j + 1, d):
            factor = matrix[i, j] / matrix[j, j]
            for k in range(j, d):
                matrix[i, k] -= factor * matrix[j, k]
            for k in range(right.shape[1]):
                right[i, k] -= factor * right[j, k]
    for i in range(d - 1, -1, -1):
        for k in range(right.shape[1]):
            value = right[i, k]
            for j in range(i + 1, d):
                value -= matrix[i, j] * right[j, k]
            right[i, k] = value / matrix[i, i]


@kernel(NOTHING, ROWS, ROWS, WRITTEN_ROWS)
def sandwich(left: np.ndarray, middle: np.ndarray, out: np.ndarray) -> None:
    """Add A M A' to `out`, exactly symmetric, for a symmetric M.

    Shapes: left, middle, out (d, d).
    """
    d = len(left)
    row = np.empty(d)
    for i in range(d):
        for k in range(d):
            value = 0.0
            for j in range(d):
                value += left[i, j] * middle[j, k]
            row[k] = value
        for j in range(i + 1):
            value = 0.0
            for k in range(d):
                value += row[k] * left[j, k]
            out[i, j] += value
            if j < i:
                out[j, i] += value


@kernel(NUMBER, ROWS, WRITTEN_ROWS)
def root_of(variance: np.ndarray, root: np.ndarray) -> float:
    """Write the lower triangular R with V = R'R, and return the log-determinant of V, or NaN if V is indefinite.

    variance, root (d, d): V and R.
    """
    d = len(variance)
    total = 0.0
    for j in range(d - 1, -1, -1):
        pivot = variance[j, j]
        for k in range(j + 1, d):
            pivot -= root[k, j] * root[k, j]
        if not (pivot > 0.0 and pivot < math.inf):
            return math.nan
        total += math.log(pivot)
        root[j, j] = math.sqrt(pivot)
        for i in range(j):
            value = variance[i, j]
            for k in range(j + 1, d):
                value -= root[k, i] * root[k, j]
            root[j, i] = value / root[j, j]
            root[i, j] = 0.0
    return total


@kernel(NUMBER, VECTOR, NUMBER, WRITTEN_ROWS)
def observe(loading: np.ndarray, precision: float, variance: np.ndarray) -> float:
    """Condition the covariance P of x on a site of precision w at h'x, in place, and return log|1 + w h'P h|.

    loading (d,): h; precision: w, of any sign; variance (d, d): P.
    """
    d = len(loading)
    seen = np.zeros(d)
    total = 0.0
    for i in range(d):
        for j in range(d):
            seen[i] += variance[i, j] * loading[j]
        total += loading[i] * seen[i]
    size = 1.0 + precision * total
    left = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            left[i, j] = (1.0 if i == j else 0.0) - precision / size * seen[i] * loading[j]
    out = np.empty((d, d))
    for i in range(d):
        for j in range(d):
            out[i, j] = precision / size * seen[i] * seen[j] / size
    sandwich(left, variance, out)
    for i in range(d):
        for j in range(d):
            variance[i, j] = out[i, j]
    return math.log(abs(size))


@kernel(NUMBER, BLOCKS, BLOCKS, BLOCKS, VECTOR, WRITTEN_BLOCKS, WRITTEN_BLOCKS)
def factorize(
    noise: np.ndarray,
    regression: np.ndarray,
    information: np.ndarray,
    loading: np.ndarray,
    inverse: np.ndarray,
    gain: np.ndarray,
) -> float:
    """Write R and G of `blocks.factorize`, and return the log-determinant of the precision, NaN if it is indefinite.

    noise, regression, information (T, d, d): S_t, F_t, and the sum of w h h' over the sites of each state; loading
    (d,): h, whose first element is one; inverse, gain (T, d, d).
    """
    number, d, _ = noise.shape
    work = np.empty((6, d, d))
    known, before, matrix, right, rest, scratch = work[0], work[1], work[2], work[3], work[4], work[5]
    total = 0.0
    for t in range(number):
        for i in range(d):
            for j in range(d):
                before[i, j] = noise[t, i, j]
                gain[t, i, j] = 0.0
        if t > 0:
            sandwich(regression[t], known, before)
            for i in range(d):
                for j in range(d):
                    matrix[i, j], right[i, j] = before[i, j], 0.0
                    for k in range(d):
                        right[i, j] += regression[t, i, k] * known[k, j]
            solve(matrix, right)
            # The previous state, given this one, has the regression right' and the covariance that it leaves.
            for i in range(d):
                for j in range(d):
                    gain[t - 1, i, j], scratch[i, j] = -right[j, i], 0.0
                    rest[i, j] = 1.0 if i == j else 0.0
                    for k in range(d):
                        rest[i, j] -= right[k, i] * regression[t, k, j]
            sandwich(rest, known, scratch)
            sandwich(gain[t - 1], noise[t], scratch)
            if math.isnan(root_of(scratch, inverse[t - 1])):
                return math.nan
        for i in range(d):
            for j in range(d):
                known[i, j] = before[i, j]
                matrix[i, j] = noise[t, i, j]
        total -= root_of(matrix, scratch)
        total += observe(loading, information[t, 0, 0], known)
    last = root_of(known, inverse[number - 1])
    return total if not math.isnan(last) else math.nan


@kernel(NUMBER, BLOCKS, BLOCKS, VECTOR, VECTOR, VECTOR, WRITTEN_ROWS, WRITTEN_BLOCKS)
def density(
    noise: np.ndarray,
    regression: np.ndarray,
    loading: np.ndarray,
    values: np.ndarray,
    resolved: np.ndarray,
    mean: np.ndarray,
    known: np.ndarray,
) -> float:
    """Return the log density of the values h'x_t; write the moments of each state given the values so far.

    - noise, regression (T, d, d)
    - loading (d,)
    - values (T,): values, NaN where they are not known
    - resolved (2,): the result is NaN if, relative to the sizes of its terms, the variance of a value is not above the
      first, or relative to what it was before that value, the variance of a derivative is not above the second
    - mean (T, d): written: means
    - known (T, d, d): written: covariances
    """
    number, d, _ = noise.shape
    before, moved, seen = np.empty((d, d)), np.zeros(d), np.empty(d)
    total = 0.0
    for t in range(number):
        variance, size, residual = 0.0, 0.0, values[t]
        for i in range(d):
            for j in range(d):
                before[i, j] = noise[t, i, j]
        if t > 0:
            sandwich(regression[t], known[t - 1], before)
            for i in range(d):
                moved[i] = 0.0
                for j in range(d):
                    moved[i] += regression[t, i, j] * mean[t - 1, j]
        if math.isnan(values[t]):
            for i in range(d):
                mean[t, i] = moved[i]
                for j in range(d):
                    known[t, i, j] = before[i, j]
            continue
        for i in range(d):
            seen[i] = 0.0
            for j in range(d):
                seen[i] += before[i, j] * loading[j]
                size += abs(loading[i] * before[i, j] * loading[j])
            variance += loading[i] * seen[i]
            residual -= loading[i] * moved[i]
        if not variance > resolved[0] * size:
            return math.nan
        total -= 0.5 * (math.log(2.0 * math.pi * variance) + residual * residual / variance)
        for i in range(d):
            mean[t, i] = moved[i] + seen[i] * residual / variance
            for j in range(d):
                known[t, i, j] = before[i, j] - seen[i] * seen[j] / variance
            if loading[i] == 0.0 and not known[t, i, i] > resolved[1] * before[i, i]:
                return math.nan
    return total


@kernel(NOTHING, BLOCKS, BLOCKS, WRITTEN_BLOCKS, WRITTEN_ROWS)
def interpolate(noise: np.ndarray, regression: np.ndarray, known: np.ndarray, mean: np.ndarray) -> None:
    """Turn moments of states given the values so far into those given all values (Rauch, Tung and Striebel 1965).

    The covariance is a sum of three positive semidefinite matrices, two of which are those in `factorize`.

    noise, regression (T, d, d); known (T, d, d): covariances from `density`, overwritten; mean (T, d): means from
    `density`, overwritten.
    """
    number, d, _ = noise.shape
    work = np.empty((5, d, d))
    before, right, gain, rest, scratch = work[0], work[1], work[2], work[3], work[4]
    for t in range(number - 2, -1, -1):
        for i in range(d):
            for j in range(d):
                before[i, j], right[i, j] = noise[t + 1, i, j], 0.0
                for k in range(d):
                    right[i, j] += regression[t + 1, i, k] * known[t, k, j]
        sandwich(regression[t + 1], known[t], before)
        solve(before, right)
        for i in range(d):
            for j in range(d):
                gain[i, j], scratch[i, j] = right[j, i], 0.0
                rest[i, j] = 1.0 if i == j else 0.0
                for k in range(d):
                    rest[i, j] -= right[k, i] * regression[t + 1, k, j]
        sandwich(rest, known[t], scratch)
        sandwich(gain, noise[t + 1], scratch)
        sandwich(gain, known[t + 1], scratch)
        known[t] = scratch
        for i in range(d):
            before[i, 0] = mean[t + 1, i]
            for j in range(d):
                before[i, 0] -= regression[t + 1, i, j] * mean[t, j]
        for i in range(d):
            for j in range(d):
                mean[t, i] += gain[i, j] * before[j, 0]
