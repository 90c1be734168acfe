"""Means of importance weights, in logs, with their standard errors."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp


class LogMean(NamedTuple):
    """Log of a mean of weights, and the standard error of that log."""

    value: float
    standard_error: float


def log_mean(log_weights: np.ndarray) -> LogMean:
    """Return the log of the mean of independent weights, (size,); minus infinity, with infinite error, if all vanish.

    The delta method gives the error of the log as the relative error of the mean.
    """
    value = float(logsumexp(log_weights) - np.log(len(log_weights)))
    if not np.isfinite(value):
        return LogMean(value, np.inf)
    relative = np.exp(log_weights - value)
    return LogMean(value, float(relative.std(ddof=1) / np.sqrt(len(log_weights))))


def effective_size(log_weights: np.ndarray) -> float:
    """Return the effective number of weights, (sum w)^2 / sum w^2; 0 where all vanish."""
    if not np.isfinite(np.max(log_weights)):
        return 0.0
    return float(np.exp(2.0 * logsumexp(log_weights) - logsumexp(2.0 * log_weights)))


def resampled(rng: np.random.Generator, log_weights: np.ndarray, size: int) -> np.ndarray:
    """Resample systematically; return the indices of `size` draws, in ascending order.

    `log_weights` (draws,): not all minus infinity.
    """
    weights = np.exp(log_weights - log_weights.max())
    steps = (rng.uniform() + np.arange(size)) / size
    cumulative = np.cumsum(weights / weights.sum())
    return np.minimum(np.searchsorted(cumulative, steps, side="right"), len(weights) - 1)
