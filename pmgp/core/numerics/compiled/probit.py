"""The probit likelihood of binary labels (`core.likelihoods.bernoulli`)."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import NOTHING, NUMBER, VECTOR, WRITTEN_ROWS, inlined, kernel
from pmgp.core.numerics.compiled.importance import log_ratios_of, weighing
from pmgp.core.numerics.compiled.normal import probabilities
from pmgp.core.numerics.compiled.renewal import estimating, renewing
from pmgp.core.numerics.compiled.routines import erfcx, log_ndtr
from pmgp.core.numerics.compiled.slices import slicing

SQRT_2 = math.sqrt(2.0)
SCALE = math.sqrt(2.0 / math.pi)
# As in `core.likelihoods.normal_tails`.
TAIL = -5.0
DEPTH = 40
# A product of probabilities is turned into a logarithm when it falls below SMALL; a probability of a z above UNLIKELY
# cannot make it underflow before that.
SMALL = 1e-100
UNLIKELY = -30.0


@inlined
def _hazard(z: float) -> float:
    """Return phi(z) / Phi(z)."""
    return SCALE / erfcx(-z / SQRT_2)


@inlined
def _excess(z: float, hazard: float) -> float:
    """Return hazard + z, from Laplace's continued fraction where they cancel."""
    if z >= TAIL:
        return hazard + z
    fraction = 0.0
    for k in range(DEPTH, 0, -1):
        fraction = k / (fraction - z)
    return fraction


@inlined
def tilted(sign: float, mean: float, variance: float) -> tuple[float, float, float]:
    """Return the mean, variance and log normalizer of Phi(sign f) N(f|mean, variance)."""
    scale = math.sqrt(1.0 + variance)
    z = sign * mean / scale
    hazard = _hazard(z)
    shifted = mean + sign * variance * hazard / scale
    return shifted, variance - (variance / scale) ** 2 * hazard * _excess(z, hazard), log_ndtr(z)


@kernel(NOTHING, VECTOR, VECTOR, VECTOR, WRITTEN_ROWS)
def tilted_moments(sign: np.ndarray, mean: np.ndarray, variance: np.ndarray, out: np.ndarray) -> None:
    """Write mean, variance and log normalizer of Phi(sign f) N(f|mean, variance).

    Shapes: sign, mean, variance (n,); out (3, n).
    """
    for i in range(len(sign)):
        out[0, i], out[1, i], out[2, i] = tilted(sign[i], mean[i], variance[i])


@kernel(NOTHING, VECTOR, VECTOR, WRITTEN_ROWS)
def derivatives(sign: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    """Write the first derivative of log Phi(sign f) and minus the second.

    Shapes: sign, f (n,); out (2, n).
    """
    for i in range(len(sign)):
        z = sign[i] * f[i]
        hazard = _hazard(z)
        out[0, i] = sign[i] * hazard
        out[1, i] = hazard * _excess(z, hazard)


@kernel(NUMBER, VECTOR, VECTOR, VECTOR, VECTOR, NUMBER)
def log_ratio(sign: np.ndarray, linear: np.ndarray, precision: np.ndarray, f: np.ndarray, least: float) -> float:
    """Return the sum of log Phi(sign f) - b f + w f^2 / 2, from products of probabilities that do not underflow.

    Without sites no term is positive, so it may return minus infinity as soon as the sum is below `least`.
    """
    total, product = 0.0, 1.0
    z, probability = np.empty(len(f)), np.empty(len(f))
    for i in range(len(z)):
        z[i] = sign[i] * f[i]
    probabilities(z, probability)
    for i in range(len(z)):
        if z[i] > UNLIKELY:
            product *= probability[i]
        else:
            total += log_ndtr(z[i])
        if product < SMALL:
            total += math.log(product)
            product = 1.0
            if total < least and len(linear) == 0:
                return -math.inf
    sites = 0.0
    for i in range(len(linear)):
        sites += (linear[i] - 0.5 * precision[i] * f[i]) * f[i]
    return total + math.log(product) - sites


log_ratios = log_ratios_of(log_ratio, VECTOR)
weighed = weighing(log_ratio, VECTOR)
slice_move = slicing(log_ratio, VECTOR)
estimated = estimating(weighed, VECTOR)
renewed = renewing(slice_move, weighed, VECTOR)
