"""The probit likelihood of binary labels (`core.likelihoods.bernoulli`)."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    NOTHING,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.importance import weighing, weighing_signature
from pmgp.core.numerics.compiled.normal import probabilities
from pmgp.core.numerics.compiled.renewal import estimating_signature, picked, renewing_signature
from pmgp.core.numerics.compiled.routines import erfcx, log_ndtr, uniform
from pmgp.core.numerics.compiled.sites import deviations
from pmgp.core.numerics.compiled.slices import slice_signature, slicing

__all__ = ["derivatives", "estimated", "log_ratios", "renewed", "slice_move", "tilted", "tilted_moments", "weighed"]

SQRT_2 = math.sqrt(2.0)
SCALE = math.sqrt(2.0 / math.pi)
# As in `core.likelihoods.normal_tails`.
TAIL = -5.0
DEPTH = 40
# A product of probabilities is turned into a logarithm when it falls below; no probability of the sites beyond UNLIKELY
# is as small as what is left of the range of numbers then.
SMALL = 1e-100
UNLIKELY = -30.0


@inlined
def _hazard(
    z: float,
) -> float:
    """phi(z) / Phi(z)."""
    return SCALE / erfcx(-z / SQRT_2)


@inlined
def _excess(
    z: float,
    hazard: float,
) -> float:
    """hazard + z, by Laplace's continued fraction where they cancel."""
    if z >= TAIL:
        return hazard + z
    fraction = 0.0
    for k in range(DEPTH, 0, -1):
        fraction = k / (fraction - z)
    return fraction


@inlined
def tilted(
    sign: float,
    mean: float,
    variance: float,
) -> tuple[float, float, float]:
    """Mean, variance and log normalizer of Phi(sign f) N(f|mean, variance)."""
    scale = math.sqrt(1.0 + variance)
    z = sign * mean / scale
    hazard = _hazard(z)
    shifted = mean + sign * variance * hazard / scale
    return shifted, variance - (variance / scale) ** 2 * hazard * _excess(z, hazard), log_ndtr(z)


@kernel(NOTHING, VECTOR, VECTOR, VECTOR, WRITTEN_ROWS)
def tilted_moments(
    sign: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write mean, variance and log normalizer of Phi(sign f) N(f|mean, variance).

    Parameters
    ----------
    sign, mean, variance : (n,) array
    out : (3, n) array
    """
    for i in range(len(sign)):
        out[0, i], out[1, i], out[2, i] = tilted(sign[i], mean[i], variance[i])


@kernel(NOTHING, VECTOR, VECTOR, WRITTEN_ROWS)
def derivatives(
    sign: np.ndarray,
    f: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the first derivative of log Phi(sign f) and minus the second.

    Parameters
    ----------
    sign, f : (n,) array
    out : (2, n) array
    """
    for i in range(len(sign)):
        z = sign[i] * f[i]
        hazard = _hazard(z)
        out[0, i] = sign[i] * hazard
        out[1, i] = hazard * _excess(z, hazard)


@kernel(NUMBER, VECTOR, VECTOR, VECTOR, VECTOR, NUMBER)
def log_ratio(
    sign: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    f: np.ndarray,
    least: float,
) -> float:
    """The sum of log Phi(sign f) - b f + w f^2 / 2; probabilities are multiplied as long as that does not underflow.

    Without sites no term is positive: then it may be minus infinity as soon as the sum is seen to fall below `least`.
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


@kernel(NOTHING, VECTOR, VECTOR, VECTOR, ROWS, WRITTEN_VECTOR)
def log_ratios(
    sign: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    f: np.ndarray,
    out: np.ndarray,
) -> None:
    """Write the log ratio of likelihood and sites for each row f.

    Parameters
    ----------
    sign : (n,) array
    linear, precision : (n,) array
        b and w, or empty arrays where there are no sites.
    f : (size, n) array
    out : (size,) array
    """
    for k in range(f.shape[0]):
        out[k] = log_ratio(sign, linear, precision, f[k], -math.inf)


_weigh, _move = weighing(log_ratio), slicing(log_ratio)


@kernel(*weighing_signature(VECTOR))
def weighed(
    sign: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    deviations: np.ndarray,
    paired: bool,
    log_normalizer: float,
    particles: np.ndarray,
    log_weights: np.ndarray,
    weights: np.ndarray,
) -> float:
    """Draws from q with their importance weights, as `importance.weighing` says."""
    q = linear, precision, mean, log_normalizer
    return _weigh(sign, q, deviations, paired, particles, log_weights, weights)


@kernel(*estimating_signature(VECTOR))
def estimated(
    sign: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    prior_factor: np.ndarray,
    covariance: np.ndarray,
    factor: np.ndarray,
    log_normalizer: float,
    paired: bool,
    first: np.ndarray,
    second: np.ndarray,
    particles: np.ndarray,
    log_weights: np.ndarray,
    weights: np.ndarray,
) -> tuple[float, bool]:
    """Draws from q, made and weighed, as `renewal.estimating_signature` says."""
    away = np.empty(first.shape)
    multiplied = deviations(prior_factor, covariance, factor, precision, first, second, away)
    known = linear, precision, mean, away, paired, log_normalizer
    return weighed(sign, *known, particles, log_weights, weights), multiplied


@kernel(*slice_signature(VECTOR))
def slice_move(
    sign: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    f: np.ndarray,
    auxiliary: np.ndarray,
    below: float,
    next_double: int,
    state: int,
    moved: np.ndarray,
    value: np.ndarray,
) -> int:
    """An elliptical slice move, as `slices.slicing` says."""
    q = linear, precision, mean
    return _move(sign, q, f, auxiliary, below, (next_double, state), moved, value)


@kernel(*renewing_signature(VECTOR))
def renewed(
    sign: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    prior_factor: np.ndarray,
    covariance: np.ndarray,
    factor: np.ndarray,
    log_normalizer: float,
    f: np.ndarray,
    below: float,
    next_double: int,
    state: int,
    paired: bool,
    first: np.ndarray,
    second: np.ndarray,
    moved: np.ndarray,
    particles: np.ndarray,
    log_weights: np.ndarray,
    weights: np.ndarray,
) -> tuple[float, bool, int]:
    """A slice move and draws beside it, as `renewal.renewing_signature` says."""
    away = np.empty(first.shape)
    multiplied = deviations(prior_factor, covariance, factor, precision, first, second, away)
    # The log ratio at f is not known.
    weights[0] = math.nan
    slice_move(sign, linear, precision, mean, f, away[0], below, next_double, state, moved, weights)
    for i in range(len(moved)):
        away[0, i] = moved[i] - mean[i]
    known = linear, precision, mean, away, paired, log_normalizer
    log_evidence = weighed(sign, *known, particles, log_weights, weights)
    return log_evidence, multiplied, picked(weights, uniform(next_double, state))
