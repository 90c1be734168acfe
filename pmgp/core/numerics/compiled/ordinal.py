"""The ordinal probit likelihood (`core.likelihoods.ordinal`): normal probabilities of intervals.

Its data are rows of one array: lower limits, upper limits, and the standard deviation of the noise.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.legendre import leggauss

from pmgp.core.numerics.compiled.declaration import NUMBER, ROWS, VECTOR, inlined, kernel
from pmgp.core.numerics.compiled.importance import log_ratios_of, weighing
from pmgp.core.numerics.compiled.normal import probabilities
from pmgp.core.numerics.compiled.renewal import estimating, renewing
from pmgp.core.numerics.compiled.routines import erfcx, log_ndtr
from pmgp.core.numerics.compiled.slices import slicing

SQRT_2 = math.sqrt(2.0)
LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
# As in `core.likelihoods.normal_interval`.
NODES, WEIGHTS = leggauss(32)
NARROW, STEEP = 1.0, 20.0
# A difference of probabilities below PLAIN times the larger one, or below LEAST, is computed in another way. A product
# of differences is turned into a logarithm when it falls below SMALL, so that the next one does not underflow.
PLAIN, LEAST, SMALL = 1e-3, 1e-200, 1e-100
# Number of terms that are computed together.
PART = 32


@inlined
def _log_probability(lower: float, upper: float, width: float) -> float:
    """Return log P(lower < u < upper) in the lower tail: a share of P(u < upper), or by quadrature if it is narrow."""
    slope = -0.5 * (lower + upper)
    if width < NARROW and width * slope < STEEP:
        total = 0.0
        for k in range(len(NODES)):
            t = 0.5 * width * NODES[k]
            total += 0.5 * WEIGHTS[k] * math.exp(slope * t - 0.5 * t * t)
        return math.log(width * total) - 0.5 * slope * slope - LOG_SQRT_2PI
    lacking = erfcx(-lower / SQRT_2) / erfcx(-upper / SQRT_2) * math.exp(-width * slope)
    return log_ndtr(upper) + math.log1p(-lacking)


@kernel(NUMBER, ROWS, VECTOR, VECTOR, VECTOR, NUMBER)
def log_ratio(data: np.ndarray, linear: np.ndarray, precision: np.ndarray, f: np.ndarray, least: float) -> float:
    """Return the sum of log P(lower < f + noise e < upper) - b f + w f^2 / 2, e standard normal.

    Without sites no term is positive, so it may return minus infinity as soon as the sum is below `least`. This is
    checked after each part of the terms; the slowest and smallest part comes last.
    """
    total, product, n = 0.0, 1.0, len(f)
    work = np.empty((4, n))
    near, far, above, between = work[0], work[1], work[2], work[3]
    for start in range(0, n, PART):
        stop = min(start + PART, n)
        value, low, high, noise = f[start:stop], data[0, start:stop], data[1, start:stop], data[2, start:stop]
        close, distant, share, beyond = near[start:stop], far[start:stop], between[start:stop], above[start:stop]
        for i in range(len(value)):
            lower, upper = (low[i] - value[i]) / noise[i], (high[i] - value[i]) / noise[i]
            reflected = lower + upper > 0.0
            close[i], distant[i] = -lower if reflected else upper, -upper if reflected else lower
        probabilities(close, share)
        probabilities(distant, beyond)
        for i in range(len(share)):
            below = share[i]
            share[i] -= beyond[i]
            if not (share[i] > PLAIN * below and share[i] > LEAST):
                share[i] = 0.0
                continue
            product *= share[i]
            if product < SMALL:
                total += math.log(product)
                product = 1.0
        if len(linear) == 0 and total + math.log(product) < least:
            return -math.inf
    total += math.log(product)
    for i in range(len(near)):
        if between[i] == 0.0:
            total += _log_probability(far[i], near[i], (data[1, i] - data[0, i]) / data[2, i])
            if total < least and len(linear) == 0:
                return -math.inf
    sites = 0.0
    for i in range(len(linear)):
        sites += (linear[i] - 0.5 * precision[i] * f[i]) * f[i]
    return total - sites


log_ratios = log_ratios_of(log_ratio, ROWS)
weighed = weighing(log_ratio, ROWS)
slice_move = slicing(log_ratio, ROWS)
estimated = estimating(weighed, ROWS)
renewed = renewing(slice_move, weighed, ROWS)
