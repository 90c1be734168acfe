"""A transition of the multiple-trial independence sampler for an emulated density s (Liu 2001, section 5.4.2).

Several independent draws are made from a t distribution with density g. One of them, x, is picked in proportion to
w = s / g, and accepted with probability min(1, W / (W - w(x) + w(x_0))), where W is the sum of the ratios at the draws
and x_0 is the chain's position. The transition is reversible and leaves s invariant.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import COUNT, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, WRITTEN_VECTOR, kernel
from pmgp.core.numerics.compiled.exponential import SMALLEST, exponential
from pmgp.core.numerics.compiled.routines import LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, ddot, dtrmm

# As in `core.transitions.proposals`.
DEGREES_OF_FREEDOM = 5.0
INFLATION = 1.15


@kernel(
    COUNT,
    *[ROWS, VECTOR, VECTOR, VECTOR],
    *[VECTOR, ROWS, ROWS],
    *[VECTOR, ROWS, VECTOR, ROWS, ROWS, VECTOR],
    *[NUMBER] * 4,
    *[WRITTEN_ROWS, WRITTEN_VECTOR],
)
def transition(
    normals: np.ndarray,
    chi_squares: np.ndarray,
    numbers: np.ndarray,
    theta: np.ndarray,
    location: np.ndarray,
    factor: np.ndarray,
    inverse_factor: np.ndarray,
    center: np.ndarray,
    whitening: np.ndarray,
    linear: np.ndarray,
    square: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
    constant: float,
    lengthscale: float,
    lowest: float,
    highest: float,
    tried: np.ndarray,
    log_emulated: np.ndarray,
) -> int:
    """Write the chain's position and draws from the t, with their emulated log-densities; return which one is chosen.

    - normals (k, dimension)
    - chi_squares (k,)
    - numbers (2,): uniform numbers for the choice and for its acceptance
    - theta (dimension,)
    - location, factor, inverse_factor: those of the t, (dimension,) and (dimension, dimension); factor is transposed
    - center, whitening, linear, square, nodes, weights, constant, lengthscale: fields of the emulator, the first
      two being location and inverse_factor; the square is an upper triangle, and the nodes are transposed
    - lowest, highest: bounds of its log-density less that of the t
    - tried (k + 1, dimension)
    - log_emulated (k + 1,)
    """
    size, d = tried.shape
    for b in range(d):
        tried[0, b] = theta[b]
        for k in range(1, size):
            tried[k, b] = normals[k - 1, b]
    dtrmm((LEFT, LOWER, NOT_TRANSPOSED, NOT_UNIT, d, size - 1, 1.0, factor, d, (tried, d), d))
    for k in range(1, size):
        divisor = math.sqrt(chi_squares[k - 1] / DEGREES_OF_FREEDOM)
        for b in range(d):
            tried[k, b] = location[b] + INFLATION * tried[k, b] / divisor
    exponent, largest = 0.5 * (DEGREES_OF_FREEDOM + d), -math.inf
    z, near, ratios = np.empty(d), np.empty(len(weights)), np.empty(size)
    for k in range(size):
        distance, value = 0.0, constant
        for i in range(len(near)):
            near[i] = 0.0
        for a in range(d):
            standard, whitened = 0.0, 0.0
            for b in range(d):
                standard += inverse_factor[a, b] * (tried[k, b] - location[b])
                whitened += whitening[a, b] * (tried[k, b] - center[b])
            distance += (standard / INFLATION) ** 2
            z[a], place, row = whitened, whitened / lengthscale, nodes[a]
            along = linear[a]
            for b in range(a + 1):
                along += z[b] * square[b, a]
            value += along * whitened
            for i in range(len(near)):
                near[i] -= 0.5 * (place - row[i]) * (place - row[i])
        for i in range(len(near)):
            near[i] = exponential(max(near[i], SMALLEST))
        value += ddot((len(near), near, 1, weights, 1))
        log_t = -exponent * math.log1p(distance / DEGREES_OF_FREEDOM)
        # The sum of two exponentials, from their logarithms.
        bounded = min(value - log_t, highest)
        ratios[k] = max(bounded, lowest) + math.log1p(math.exp(-abs(bounded - lowest)))
        log_emulated[k] = log_t + ratios[k]
        largest = max(largest, ratios[k])
    # Pick one in proportion to its ratio w, and accept it with probability min(1, W / (W - w + w_0)).
    total = 0.0
    for k in range(size):
        ratios[k] = math.exp(ratios[k] - largest)
        total += ratios[k] if k > 0 else 0.0
    chosen, passed = 1, ratios[1]
    while chosen < size - 1 and passed <= numbers[0] * total:
        chosen += 1
        passed += ratios[chosen]
    return chosen if numbers[1] * (total - ratios[chosen] + ratios[0]) < total else 0
