"""Sweeps of expectation propagation until q matches, as `core.approximations.expectation_propagation` makes them."""

from __future__ import annotations

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
from pmgp.core.numerics.compiled.moments import cavities, inverse_diagonal, matched
from pmgp.core.numerics.compiled.outcomes import INDEFINITE, MATCHED, NOT_CONVERGED
from pmgp.core.numerics.compiled.probit import tilted_moments
from pmgp.core.numerics.compiled.sites import condition, log_normalizer

__all__ = ["probit_sweeps", "secant_step"]


@kernel(NUMBER, VECTOR, VECTOR, WRITTEN_ROWS, WRITTEN_ROWS, NUMBER, NUMBER)
def secant_step(
    mean: np.ndarray,
    variance: np.ndarray,
    change: np.ndarray,
    last: np.ndarray,
    step: float,
    smallest: float,
) -> float:
    """Length of the next step: <s, r> / <r, r>, s having been moved and r being the reduction of the change.

    Parameters
    ----------
    mean, variance : (n,) array
        Of q's marginals.
    change, last : (2, n) array
        The changes of b and w that are asked for now, and that were before the last step.
    step : float
        Length of the last step.
    smallest : float
    """
    product, square = 0.0, 0.0
    for i in range(len(mean)):
        db, dw = last[0, i] - change[0, i], last[1, i] - change[1, i]
        along = db - dw * mean[i]
        product += step * variance[i] * (last[0, i] - last[1, i] * mean[i]) * along
        product += 0.5 * step * variance[i] * variance[i] * last[1, i] * dw
        square += variance[i] * along * along + 0.5 * variance[i] * variance[i] * dw * dw
    return min(max(product / square, smallest), 1.0) if square > 0.0 else 1.0


@kernel(
    COUNT, VECTOR, ROWS, VECTOR, *[NUMBER] * 5, COUNT, WRITTEN_ROWS, WRITTEN_VECTOR, *[WRITTEN_ROWS] * 2, WRITTEN_VECTOR
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
    work : (15, n) array
    outcome : (4,) array
        Log-determinant of B, which is also read; log-evidence; how many inversions and factorizations were made.
    """
    n = len(mean)
    linear, precision, prior_variance, diagonal, old = sites[0], sites[1], work[0], work[1], work[2]
    cavity_mean, cavity_variance, marginal = work[3], work[4], work[5]
    tilted, change, last, scratch = work[6:9], work[9:11], work[11:13], work[13:15]
    for i in range(n):
        prior_variance[i] = covariance[i, i]
    step = 1.0
    for sweep in range(max_sweeps):
        outcome[2] += 1.0
        inverse_diagonal(factor, diagonal)
        if not cavities(
            prior_variance, mean, linear, precision, diagonal, largest_share, cavity_mean, cavity_variance, marginal
        ):
            return INDEFINITE
        tilted_moments(sign, cavity_mean, cavity_variance, tilted)
        by_site = matched(
            linear,
            precision,
            cavity_mean,
            cavity_variance,
            diagonal,
            tilted[0],
            tilted[1],
            tilted[2],
            smallest_precision,
            change,
        )
        outcome[1] = log_normalizer(prior_mean, linear, precision, mean, outcome[0]) + by_site
        for i in range(n):
            change[0, i] -= linear[i]
            change[1, i] -= precision[i]
            old[i] = mean[i]
        if sweep > 0:
            step = secant_step(mean, marginal, change, last, step, smallest_step)
        for i in range(n):
            linear[i] += step * change[0, i]
            precision[i] = max(precision[i] + step * change[1, i], smallest_precision)
        outcome[3] += 1.0
        spread, outcome[0] = outcome[0], condition(covariance, prior_mean, linear, precision, factor, mean, scratch)
        if not np.isfinite(outcome[0]):
            return INDEFINITE
        spread -= outcome[0]
        for i in range(n):
            last[0, i], last[1, i] = change[0, i], change[1, i]
            spread += step * (marginal[i] * change[1, i] + (mean[i] - old[i]) * (change[0, i] - change[1, i] * old[i]))
        # Nearly a quadratic function of the step; a short one does not count as a small change.
        divergence = 0.5 * spread / (step * step)
        if divergence < tolerance:
            return MATCHED
        if not divergence < largest:
            return NOT_CONVERGED
    return NOT_CONVERGED
