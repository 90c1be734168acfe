"""Moment matching on sites: the steps of `core.approximations.moment_matching`, and the diagonal of B^-1."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    FLAG,
    NOTHING,
    NUMBER,
    STRIDED,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.inversion import inverted
from pmgp.core.numerics.compiled.routines import ddot

# As in `core.gaussians.base`.
SMALLEST_VARIANCE = 1e-16


@kernel(NOTHING, WRITTEN_ROWS, WRITTEN_VECTOR)
def inverse_diagonal(factor: np.ndarray, diagonal: np.ndarray) -> None:
    """Return the diagonal of (L L')^-1, the squared column norms of L^-1; the factor's triangle becomes L^-1.

    factor (n, n): the transpose of L, whose rows are LAPACK's columns; diagonal (n,): written.
    """
    n = len(diagonal)
    inverted(factor)
    for j in range(n):
        below = (factor, j + j * n)
        diagonal[j] = ddot((n - j, below, 1, below, 1))


@inlined
def smallest_precision(smallest: float, variance: float) -> float:
    """Return the smallest precision of a site, given its product with the variance of f without that site."""
    return smallest / max(variance, SMALLEST_VARIANCE)


@inlined
def spread(share: float, prior_variance: float, precision: float) -> float:
    """Return the variance of q's marginal; the share is an element of diag(B^-1)."""
    variance = (1.0 - share) / precision
    return variance if variance > 0.0 else prior_variance


@inlined
def cavity(share: float, prior_variance: float, q_mean: float, q_variance: float, linear: float) -> tuple[float, float]:
    """Return mean and variance of the cavity; the share is an element of diag(B^-1)."""
    return (q_mean - linear * q_variance) / share, min(q_variance / share, prior_variance)


@kernel(FLAG, STRIDED, VECTOR, VECTOR, VECTOR, VECTOR, NUMBER, *[WRITTEN_VECTOR] * 2)
def cavities(
    prior_variance: np.ndarray,
    q_mean: np.ndarray,
    linear: np.ndarray,
    q_variance: np.ndarray,
    inverse_diagonal: np.ndarray,
    largest: float,
    mean: np.ndarray,
    variance: np.ndarray,
) -> bool:
    """Write means and variances of the cavities; false for an indefinite K.

    prior_variance, q_mean, linear, q_variance, inverse_diagonal (n,); largest: largest value allowed on the diagonal of
    B^-1; mean, variance (n,): written.
    """
    for i in range(len(mean)):
        share = inverse_diagonal[i]
        if not share <= largest:
            return False
        mean[i], variance[i] = cavity(share, prior_variance[i], q_mean[i], q_variance[i], linear[i])
    return True


@inlined
def log_site(b: float, w: float, c: float, s: float, d: float) -> float:
    """Return the log of the integral of a site (b, w) times its cavity N(f|c, s), with d = 1 / (1 + s w)."""
    return 0.5 * math.log(d) + d * (b * c + 0.5 * (b * b * s - w * c * c))


@inlined
def matching(
    b: float, w: float, c: float, s: float, tilted_mean: float, tilted_variance: float, smallest: float
) -> tuple[float, float]:
    """Return the site that gives q the tilted moments, for a cavity N(f|c, s); the old one if these are not sound."""
    if math.isfinite(tilted_mean) and tilted_variance > 0.0:
        w = max(1.0 / tilted_variance - 1.0 / s, smallest_precision(smallest, s))
        b = tilted_mean * (1.0 / s + w) - c / s
    return b, w


@kernel(NUMBER, *[VECTOR] * 8, NUMBER, WRITTEN_ROWS)
def matched(
    linear: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    inverse_diagonal: np.ndarray,
    tilted_mean: np.ndarray,
    tilted_variance: np.ndarray,
    log_normalizer: np.ndarray,
    smallest: float,
    sites: np.ndarray,
) -> float:
    """Write the sites b and w that give q the tilted moments; return the terms' part of the evidence, without log Z_q.

    linear, precision (n,); mean, variance (n,): mean and variance of the cavities; inverse_diagonal, tilted_mean,
    tilted_variance, log_normalizer (n,); smallest: smallest precision of a site, times
    the variance of the cavity; sites (2, n).
    """
    total = 0.0
    for i in range(len(linear)):
        b, w, c, s = linear[i], precision[i], mean[i], variance[i]
        total += log_normalizer[i] - log_site(b, w, c, s, inverse_diagonal[i])
        sites[0, i], sites[1, i] = matching(b, w, c, s, tilted_mean[i], tilted_variance[i], smallest)
    return total
