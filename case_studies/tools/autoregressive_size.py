"""Effective sample size by the spectral density at zero of a fitted autoregression, as R's package coda computes it.

It varies less between chains than sums of autocorrelations do, and the smallest of many such estimates is less
biased; but it presumes that the chain's slowest part is visible in the first few dozen lags. The spread of the figures
in the comparative evaluation is that of an estimator of this kind.
"""

from __future__ import annotations

import numpy as np

__all__ = ["autoregressive_sizes"]


def autoregressive_sizes(draws: np.ndarray) -> np.ndarray:
    """Effective sample size of the mean, for each column.

    The order of the autoregression is the one with the smallest AIC, at most 10 log10(t).

    Parameters
    ----------
    draws : (t, n) array
        One chain of n variables.

    Returns
    -------
    (n,) array
        One for a variable that never moved.
    """
    covariances = _autocovariances(draws, int(10.0 * np.log10(len(draws))))
    sizes = np.ones(draws.shape[1])
    moved = covariances[0] > 0.0
    covariances = covariances[:, moved]
    sizes[moved] = len(draws) * covariances[0] / _spectral_density_at_zero(covariances, len(draws))
    return sizes


def _autocovariances(draws: np.ndarray, largest: int) -> np.ndarray:
    """At lags from zero to the largest: (largest + 1, n)."""
    deviations = np.ascontiguousarray((draws - draws.mean(axis=0)).T)
    length = deviations.shape[1]
    products = [np.einsum("ij,ij->i", deviations[:, lag:], deviations[:, : length - lag]) for lag in range(largest + 1)]
    return np.stack(products) / length


def _spectral_density_at_zero(covariances: np.ndarray, length: int) -> np.ndarray:
    """Innovation variance over the squared sum of the prediction filter, of the order that AIC prefers.

    Levinson's recursion over the order p solves the Yule-Walker equations of all columns at once.
    """
    variance = covariances[0].copy()
    coefficients = np.zeros((0, len(variance)))
    best, density = np.full(len(variance), np.inf), np.zeros(len(variance))
    for order in range(len(covariances)):
        if order > 0:
            predicted = np.einsum("ij,ij->j", coefficients, covariances[order - 1 : 0 : -1])
            reflection = (covariances[order] - predicted) / variance
            coefficients = np.vstack([coefficients - reflection * coefficients[::-1], reflection])
            variance = variance * (1.0 - reflection**2)
        criterion = length * np.log(variance) + 2.0 * order
        unbiased = variance * length / (length - order - 1)
        density = np.where(criterion < best, unbiased / (1.0 - coefficients.sum(axis=0)) ** 2, density)
        best = np.minimum(criterion, best)
    return density
