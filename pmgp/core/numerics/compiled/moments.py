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
def cavity(
    share: float, prior_variance: float, q_mean: float, linear: float, precision: float
) -> tuple[float, float, float]:
    """Return mean and variance of the cavity, and q's marginal variance; the share is an element of diag(B^-1)."""
    spread = (1.0 - share) / precision
    if not spread > 0.0:
        spread = prior_variance
    return (q_mean - linear * spread) / share, min(spread / share, prior_variance), spread


@kernel(FLAG, STRIDED, VECTOR, VECTOR, VECTOR, VECTOR, NUMBER, *[WRITTEN_VECTOR] * 3)
def cavities(
    prior_variance: np.ndarray,
    q_mean: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    inverse_diagonal: np.ndarray,
    largest: float,
    mean: np.ndarray,
    variance: np.ndarray,
    marginal: np.ndarray,
) -> bool:
    """Write means and variances of the cavities and the variances of q's marginals; false for an indefinite K.

    prior_variance, q_mean, linear, precision, inverse_diagonal (n,); largest: largest value allowed on the diagonal of
    B^-1; mean, variance, marginal (n,): written.
    """
    for i in range(len(mean)):
        share = inverse_diagonal[i]
        if not share <= largest:
            return False
        mean[i], variance[i], marginal[i] = cavity(share, prior_variance[i], q_mean[i], linear[i], precision[i])
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
        w = max(1.0 / tilted_variance - 1.0 / s, smallest)
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
    tilted_variance, log_normalizer (n,); smallest: smallest precision of a site; sites (2, n).
    """
    total = 0.0
    for i in range(len(linear)):
        b, w, c, s = linear[i], precision[i], mean[i], variance[i]
        total += log_normalizer[i] - log_site(b, w, c, s, inverse_diagonal[i])
        sites[0, i], sites[1, i] = matching(b, w, c, s, tilted_mean[i], tilted_variance[i], smallest)
    return total
