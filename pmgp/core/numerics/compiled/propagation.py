"""Sweeps of expectation propagation until q matches, as `core.approximations.expectation_propagation` makes them."""

from __future__ import annotations

import math

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import COUNT, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, WRITTEN_VECTOR, kernel
from pmgp.core.numerics.compiled.moments import cavity, inverse_diagonal, log_site, matching, spread
from pmgp.core.numerics.compiled.moments import smallest_precision as floor
from pmgp.core.numerics.compiled.outcomes import INDEFINITE, MATCHED, NOT_CONVERGED
from pmgp.core.numerics.compiled.probit import tilted
from pmgp.core.numerics.compiled.sites import condition, log_normalizer

# Rows of the sweeps' working memory: the changes of the sites, and q's mean and variances before these changes.
CHANGE_B, CHANGE_W, MEAN, VARIANCE = range(4)


@kernel(
    types.Tuple((COUNT, COUNT, COUNT, NUMBER, NUMBER, NUMBER)),
    *[VECTOR, ROWS, VECTOR, NUMBER],
    *[NUMBER] * 5,
    COUNT,
    *[WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_ROWS],
)
def probit_sweeps(
    sign: np.ndarray,
    covariance: np.ndarray,
    prior_mean: np.ndarray,
    log_determinant: float,
    tolerance: float,
    largest: float,
    smallest_step: float,
    smallest_precision: float,
    largest_share: float,
    max_sweeps: int,
    sites: np.ndarray,
    mean: np.ndarray,
    factor: np.ndarray,
) -> tuple[int, int, int, float, float, float]:
    """Sweep from the sites that a prior is conditioned on until q matches.

    - sign (n,)
    - covariance (n, n)
    - prior_mean (n,)
    - log_determinant: log-determinant of B; if it is NaN, B is factorized first, and mean and factor are only written
    - tolerance, largest: divergences, in nats, at which a sweep is the last one
    - smallest_step, smallest_precision, largest_share: bounds of steps, of w times the prior variance, and of the
      diagonal of B^-1
    - sites (2, n): b and w
    - mean (n,): mean of q
    - factor (n, n): factor of B

    Returned:
    - status: one of `outcomes`
    - inversions, factorizations: their numbers
    - log_evidence: that of the sites before the last sweep
    - log_determinant: log determinant of B
    - log_normalizer: log of the integral of the prior times the sites; NaN if K is indefinite
    """
    n = len(mean)
    linear, precision = sites[0], sites[1]
    work, scratch, diagonal = np.empty((4, n)), np.empty((2, n)), np.empty(n)
    status, step, log_evidence, inversions, factorizations = NOT_CONVERGED, 1.0, math.nan, 0, 0
    if math.isnan(log_determinant):
        factorizations += 1
        log_determinant = condition(covariance, prior_mean, linear, precision, factor, mean, scratch)
        if not math.isfinite(log_determinant):
            return INDEFINITE, inversions, factorizations, log_evidence, log_determinant, math.nan
    for i in range(n):
        work[CHANGE_B, i], work[CHANGE_W, i] = 0.0, 0.0
    for sweep in range(max_sweeps):
        inversions += 1
        inverse_diagonal(factor, diagonal)
        by_site, product, square = 0.0, 0.0, 0.0
        for i in range(n):
            d, m, b, w = diagonal[i], mean[i], linear[i], precision[i]
            if not d <= largest_share:
                return INDEFINITE, inversions, factorizations, log_evidence, log_determinant, math.nan
            v = spread(d, covariance[i, i], w)
            c, s = cavity(d, covariance[i, i], m, v, b)
            tilted_mean, tilted_variance, log_term = tilted(sign[i], c, s)
            by_site += log_term - log_site(b, w, c, s, d)
            matching_b, matching_w = matching(b, w, c, s, tilted_mean, tilted_variance, smallest_precision)
            db, dw = matching_b - b, matching_w - w
            # The reduction of the change that was required before the last step.
            reduced_w = work[CHANGE_W, i] - dw
            along = work[CHANGE_B, i] - db - reduced_w * m
            moved = work[CHANGE_B, i] - work[CHANGE_W, i] * m
            product += v * (moved * along + 0.5 * v * work[CHANGE_W, i] * reduced_w)
            square += v * (along * along + 0.5 * v * reduced_w * reduced_w)
            work[CHANGE_B, i], work[CHANGE_W, i], work[MEAN, i], work[VARIANCE, i] = db, dw, m, v
        log_evidence = log_normalizer(prior_mean, linear, precision, mean, log_determinant) + by_site
        if sweep > 0:
            step = min(max(step * product / square, smallest_step), 1.0) if square > 0.0 else 1.0
        change = log_determinant
        for i in range(n):
            linear[i] += step * work[CHANGE_B, i]
            precision[i] = max(precision[i] + step * work[CHANGE_W, i], floor(smallest_precision, covariance[i, i]))
        factorizations += 1
        log_determinant = condition(covariance, prior_mean, linear, precision, factor, mean, scratch)
        if not math.isfinite(log_determinant):
            return INDEFINITE, inversions, factorizations, log_evidence, log_determinant, math.nan
        change -= log_determinant
        for i in range(n):
            db, dw, m = work[CHANGE_B, i], work[CHANGE_W, i], work[MEAN, i]
            change += step * (work[VARIANCE, i] * dw + (mean[i] - m) * (db - dw * m))
        # The divergence is nearly quadratic in the step; a short step must not count as a small change.
        divergence = 0.5 * change / (step * step)
        if divergence < tolerance:
            status = MATCHED
        if status == MATCHED or not divergence < largest:
            break
    normalizer = log_normalizer(prior_mean, linear, precision, mean, log_determinant)
    return status, inversions, factorizations, log_evidence, log_determinant, normalizer
