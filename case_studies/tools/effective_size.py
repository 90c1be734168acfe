"""Effective sample size of every column of a chain at once.

The estimate is that of ArviZ's ``ess(method="mean")`` for one chain: the chain is split in two, and the
autocorrelations are summed as far as Geyer's initial monotone sequence goes. ArviZ visits one variable after the
other; with hundreds of latent values that takes longer than sampling them.
"""

from __future__ import annotations

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

__all__ = ["effective_sizes"]


def effective_sizes(draws: np.ndarray) -> np.ndarray:
    """Effective sample size of the mean, for each column.

    Parameters
    ----------
    draws : (t, n) array
        One chain of n variables.

    Returns
    -------
    (n,) array
        One for a variable that never moved: its draws are worth one.

    Raises
    ------
    ValueError
        For fewer than eight draws, or values that are not finite.
    """
    if draws.shape[0] < 8 or not np.isfinite(draws).all():
        raise ValueError(f"effective sizes need at least 8 draws, all finite; there are {draws.shape[0]}")
    halves = _halves(draws)
    moved = np.ptp(draws, axis=0) > 0.0
    sizes = np.ones(draws.shape[1])
    correlations = _autocorrelations(halves[:, moved])
    total = 2 * halves.shape[-1]
    sizes[moved] = total / np.maximum(_correlation_time(correlations), 1.0 / np.log10(total))
    return sizes


def _halves(draws: np.ndarray) -> np.ndarray:
    """First and second half of the chain: (2, n, t // 2); the middle draw of an odd number is left out."""
    length = draws.shape[0] // 2
    return np.stack([draws[:length].T, draws[-length:].T])


def _autocorrelations(halves: np.ndarray) -> np.ndarray:
    """Autocorrelations (n, t) of both halves together, about the mean of each, over the variance that includes both."""
    length = halves.shape[-1]
    means = halves.mean(axis=-1, keepdims=True)
    covariance = _autocovariances(halves - means).mean(axis=0)
    within = covariance[:, :1] * length / (length - 1)
    plus = covariance[:, :1] + means.var(axis=0, ddof=1)
    return 1.0 - (within - covariance) / plus


def _autocovariances(deviations: np.ndarray) -> np.ndarray:
    length = deviations.shape[-1]
    padded = next_fast_len(2 * length, real=True)
    spectrum = np.abs(rfft(deviations, padded, axis=-1)) ** 2
    return irfft(spectrum, padded, axis=-1)[..., :length] / length


def _correlation_time(correlations: np.ndarray) -> np.ndarray:
    """One plus twice the sum of the correlations, as far as the sums of neighboring pairs stay positive.

    Geyer (1992): these sums are positive and decrease, so that they end at the first that is not positive, and are
    replaced by their running minimum. The first correlation after the end is counted, once, if it is positive.
    """
    even = correlations[:, 0 : (correlations.shape[1] - 1) // 2 * 2 : 2].copy()
    even[:, 0] = 1.0
    pairs = even + correlations[:, 1 : 2 * even.shape[1] : 2]
    ended = pairs <= 0.0
    ended[:, -1] = True
    end = ended.argmax(axis=1)
    sums = np.cumsum(np.minimum.accumulate(pairs, axis=1), axis=1)
    rows = np.arange(len(end))
    before = np.where(end > 0, sums[rows, end - 1], 0.0)
    return -1.0 + 2.0 * before + np.maximum(even[rows, end], 0.0)
