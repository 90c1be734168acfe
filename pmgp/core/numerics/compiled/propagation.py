"""Sweeps of expectation propagation until q matches, as `core.approximations.expectation_propagation` makes them."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    kernel,
)
from pmgp.core.numerics.compiled.moments import cavity, inverse_diagonal, log_site, matching
from pmgp.core.numerics.compiled.outcomes import INDEFINITE, MATCHED, NOT_CONVERGED
from pmgp.core.numerics.compiled.probit import tilted
from pmgp.core.numerics.compiled.sites import condition, log_normalizer

__all__ = ["probit_sweeps"]

# Rows of the memory that sweeps work with: what the sites are to change by, and q's mean and variances before they do.
CHANGE_B, CHANGE_W, MEAN, VARIANCE = range(4)


@kernel(
    COUNT,
    *[VECTOR, ROWS, VECTOR],
    *[NUMBER] * 5,
    COUNT,
    *[WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_ROWS],
    *[WRITTEN_ROWS, WRITTEN_ROWS, WRITTEN_VECTOR],
    WRITTEN_VECTOR,
)
def probit_sweeps(
    sign: np.ndarray,
    covariance: np.ndarray,
    prior_mean: np.ndarray,
    tolerance: float,
    largest: float,
    smallest_step: float,
    smallest_precision: float,
    largest_share: float,
    max_sweeps: int,
    sites: np.ndarray,
    mean: np.ndarray,
    factor: np.ndarray,
    work: np.ndarray,
    scratch: np.ndarray,
    diagonal: np.ndarray,
    outcome: np.ndarray,
) -> int:
    """Sweep from the sites that a prior is conditioned on until q matches: whether it does, or why not.

    Parameters
    ----------
    sign : (n,) array
    covariance : (n, n) array
    prior_mean : (n,) array
    tolerance, largest : float
        Divergences, in nats, at which a sweep is the last one.
    smallest_step, smallest_precision, largest_share : float
        Bounds of steps, of w and of the diagonal of B^-1.
    max_sweeps : int
    sites : (2, n) array
        b and w.
    mean : (n,) array
        Of q.
    factor : (n, n) array
        Of B.
    work : (4, n) array
        Zeros at first.
    scratch : (2, n) array
    diagonal : (n,) array
    outcome : (4,) array
        Log-determinant of B, which is also read: where it is not a number, B is factorized first; log-evidence; how
        many inversions and factorizations were made.
    """
    n = len(mean)
    linear, precision = sites[0], sites[1]
    step, log_determinant = 1.0, outcome[0]
    if math.isnan(log_determinant):
        outcome[3] += 1.0
        log_determinant = condition(covariance, prior_mean, linear, precision, factor, mean, scratch)
        if not math.isfinite(log_determinant):
            return INDEFINITE
    for sweep in range(max_sweeps):
        outcome[2] += 1.0
        inverse_diagonal(factor, diagonal)
        by_site, product, square = 0.0, 0.0, 0.0
        for i in range(n):
            d, m, b, w = diagonal[i], mean[i], linear[i], precision[i]
            if not d <= largest_share:
                return INDEFINITE
            c, s, v = cavity(d, covariance[i, i], m, b, w)
            tilted_mean, tilted_variance, log_term = tilted(sign[i], c, s)
            by_site += log_term - log_site(b, w, c, s, d)
            matching_b, matching_w = matching(b, w, c, s, tilted_mean, tilted_variance, smallest_precision)
            db, dw = matching_b - b, matching_w - w
            # The reduction of what was asked for before the last step.
            reduced_w = work[CHANGE_W, i] - dw
            along = work[CHANGE_B, i] - db - reduced_w * m
            moved = work[CHANGE_B, i] - work[CHANGE_W, i] * m
            product += v * (moved * along + 0.5 * v * work[CHANGE_W, i] * reduced_w)
            square += v * (along * along + 0.5 * v * reduced_w * reduced_w)
            work[CHANGE_B, i], work[CHANGE_W, i], work[MEAN, i], work[VARIANCE, i] = db, dw, m, v
        outcome[1] = log_normalizer(prior_mean, linear, precision, mean, log_determinant) + by_site
        if sweep > 0:
            step = min(max(step * product / square, smallest_step), 1.0) if square > 0.0 else 1.0
        spread = log_determinant
        for i in range(n):
            linear[i] += step * work[CHANGE_B, i]
            precision[i] = max(precision[i] + step * work[CHANGE_W, i], smallest_precision)
        outcome[3] += 1.0
        log_determinant = condition(covariance, prior_mean, linear, precision, factor, mean, scratch)
        if not math.isfinite(log_determinant):
            return INDEFINITE
        spread -= log_determinant
        for i in range(n):
            db, dw, m = work[CHANGE_B, i], work[CHANGE_W, i], work[MEAN, i]
            spread += step * (work[VARIANCE, i] * dw + (mean[i] - m) * (db - dw * m))
        # The divergence is nearly a quadratic function of the step; a short one does not count as a small change.
        outcome[0], divergence = log_determinant, 0.5 * spread / (step * step)
        if divergence < tolerance:
            return MATCHED
        if not divergence < largest:
            break
    return NOT_CONVERGED
