"""Compiled loops that draw variables one after another, and choose their order.

Each works on a block of variables and many draws; BLAS computes products between blocks.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    FLAG,
    NOTHING,
    NUMBER,
    ROWS,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.orthants.compiled_normal import LOG_SQRT_2PI, visit

WRITTEN_INDICES = types.Array(COUNT, 1, "C")
# Draws handled at a time, so that their values for a block of variables stay in the first-level cache.
CHUNK = 64
# A product of probabilities is turned into a logarithm when it falls below.
SMALL = 1e-100


@inlined
def _draw_variable(
    coefficients: np.ndarray,
    kappas: np.ndarray,
    uniforms: np.ndarray,
    noise: np.ndarray,
    values: np.ndarray,
    products: np.ndarray,
    log_weights: np.ndarray,
    known: bool,
) -> None:
    """Draw one variable of a few paths, in (draws,) arrays, and multiply `products` by its probabilities."""
    lower, upper, slope, offset, scale, constant, linear, spread, log_linear, log_square, tilt = coefficients
    for m in range(len(kappas)):
        kappa = kappas[m]
        center = slope * kappa + offset
        log_weights[m] += kappa * (log_linear + kappa * log_square)
        if scale == 0.0:
            # The variable is a function of those before it. Its innovation affects later variables only, because its
            # column of the factor is zero on the diagonal.
            values[m] = values[m] if known else center
            x, _, _, _ = visit(-math.inf, math.inf, uniforms[m], 0.0, False)
            noise[m] = constant + linear * kappa + spread * x
            if center < lower or center > upper:
                log_weights[m] = -math.inf
            continue
        alpha, beta = (lower - center) / scale, (upper - center) / scale
        x, uniforms[m], mass, extra = visit(alpha, beta, uniforms[m], (values[m] - center) / scale, known)
        values[m] = values[m] if known else min(max(center + scale * x, lower), upper)
        noise[m] = constant + linear * kappa + spread * x
        log_weights[m] += extra + tilt * x
        products[m] *= mass
        if products[m] < SMALL:
            log_weights[m] += math.log(products[m]) if products[m] > 0.0 else -math.inf
            products[m] = 1.0


@kernel(NOTHING, COUNT, ROWS, ROWS, *[WRITTEN_ROWS] * 4, WRITTEN_VECTOR, FLAG)
def draw_block(
    start: int,
    factor: np.ndarray,
    coefficients: np.ndarray,
    shift: np.ndarray,
    uniforms: np.ndarray,
    noise: np.ndarray,
    values: np.ndarray,
    log_weights: np.ndarray,
    known: bool,
) -> None:
    """Draw a block of variables, each between its limits given those before it.

    - start: the first variable of the block
    - factor (n, n)
    - coefficients (n, 11): coefficients of each variable; see `recursion.Recursion`
    - shift (block, draws): the contribution of the mean and the variables before the block to each variable; those in
      the block are added
    - uniforms (block, draws): shares of the conditional probabilities that lie below the draws: read, or written if the
      values are `known`
    - noise, values (n, draws): the innovations, which are written; the variables, which are written, or read if they
      are `known`
    - log_weights (draws,): the log-weights of the block are added
    - known: whether the variables are given, and the shares are computed
    """
    size, draws = shift.shape
    for first in range(0, draws, CHUNK):
        last = min(first + CHUNK, draws)
        products = np.ones(last - first)
        for i in range(size):
            row = start + i
            for j in range(i):
                weight = factor[row, start + j]
                for m in range(first, last):
                    shift[i, m] += weight * noise[start + j, m]
            _draw_variable(
                coefficients[row],
                shift[i, first:last],
                uniforms[i, first:last],
                noise[row, first:last],
                values[row, first:last],
                products,
                log_weights[first:last],
                known,
            )
        for m in range(first, last):
            log_weights[m] += math.log(products[m - first])


@inlined
def _log_probability(alpha: float, beta: float) -> float:
    """Return the log-probability of an interval."""
    _, _, mass, extra = visit(alpha, beta, 0.5, 0.0, False)
    return math.log(mass) + extra if mass > 0.0 else -math.inf


@inlined
def _mean(alpha: float, beta: float) -> float:
    """Return the mean of a standard normal between limits; zero if the interval has no probability."""
    log_scale = LOG_SQRT_2PI + _log_probability(alpha, beta)
    if log_scale == -math.inf:
        return 0.0
    below = math.exp(-0.5 * alpha * alpha - log_scale) if alpha > -math.inf else 0.0
    above = math.exp(-0.5 * beta * beta - log_scale) if beta < math.inf else 0.0
    return min(max(below - above, alpha), beta)


@inlined
def _least_likely(start: int, states: np.ndarray, tolerance: float) -> int:
    """Return the variable from `start` on that is least likely to lie between its limits; those without variance last.

    Among variables with one limit, the one whose limit lies farthest inside is the least likely, and only its
    probability is computed.
    """
    best, chosen = math.inf, start
    farthest, one_sided = -math.inf, -1
    for i in range(start, states.shape[1]):
        if states[2, i] > tolerance:
            scale = 1.0 / math.sqrt(states[2, i])
            alpha, beta = (states[0, i] - states[3, i]) * scale, (states[1, i] - states[3, i]) * scale
            if beta == math.inf or alpha == -math.inf:
                limit = alpha if beta == math.inf else -beta
                if one_sided < 0 or limit > farthest:
                    farthest, one_sided = limit, i
            else:
                log_probability = _log_probability(alpha, beta)
                if log_probability < best:
                    best, chosen = log_probability, i
    return one_sided if one_sided >= 0 and _log_probability(farthest, math.inf) < best else chosen


@inlined
def _exchange(matrix: np.ndarray, factor: np.ndarray, states: np.ndarray, order: np.ndarray, j: int, k: int) -> None:
    """Exchange two variables in the matrix, the factor, the states and the order."""
    order[j], order[k] = order[k], order[j]
    for i in range(matrix.shape[0]):
        matrix[j, i], matrix[k, i] = matrix[k, i], matrix[j, i]
        factor[j, i], factor[k, i] = factor[k, i], factor[j, i]
    for i in range(matrix.shape[0]):
        matrix[i, j], matrix[i, k] = matrix[i, k], matrix[i, j]
    for i in range(states.shape[0]):
        states[i, j], states[i, k] = states[i, k], states[i, j]


@inlined
def _eliminate(
    start: int, j: int, matrix: np.ndarray, factor: np.ndarray, states: np.ndarray, tolerance: float
) -> float:
    """Compute a column of the factor, update variances and expected values, and return the defect of `order_block`."""
    variance = states[2, j]
    defect = -variance
    zero = variance <= tolerance
    pivot = 0.0 if zero else math.sqrt(variance)
    factor[j, j] = pivot
    expected = 0.0 if zero else _mean((states[0, j] - states[3, j]) / pivot, (states[1, j] - states[3, j]) / pivot)
    for i in range(j + 1, matrix.shape[0]):
        left = matrix[i, j]
        for k in range(start, j):
            left -= factor[i, k] * factor[j, k]
        if zero:
            defect = max(defect, left * left)
            continue
        entry = left / pivot
        factor[i, j] = entry
        states[2, i] -= entry * entry
        states[3, i] += entry * expected
    return defect


@kernel(NUMBER, COUNT, COUNT, *[WRITTEN_ROWS] * 3, WRITTEN_INDICES, NUMBER, FLAG)
def order_block(
    start: int,
    stop: int,
    matrix: np.ndarray,
    factor: np.ndarray,
    states: np.ndarray,
    order: np.ndarray,
    tolerance: float,
    choose: bool,
) -> float:
    """Factorize some columns in the order of the variables, or with the least likely variable next.

    - matrix (n, n): both triangles of the covariance given the variables before `start`; its variables are exchanged
    - factor (n, n): columns from `start` to `stop` are written
    - states (4, n): lower and upper limits, conditional variances, and expected values given the variables before
    - order (n,) of int
    - tolerance: variances up to this one are zero
    - choose: whether to choose the least likely variable next, or to keep the order

    Returned:
    - float: the largest defect from positive semidefinite that was found: the size of a negative variance, or the
      square of a covariance with a variable of zero variance
    """
    defect = 0.0
    for j in range(start, stop):
        chosen = _least_likely(j, states, tolerance) if choose else j
        if chosen != j:
            _exchange(matrix, factor, states, order, j, chosen)
        defect = max(defect, _eliminate(start, j, matrix, factor, states, tolerance))
    return defect
