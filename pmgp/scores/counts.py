"""Scores of predicted counts or measurements, and the predictive distribution behind those of counts.

The log predictive density judges the whole distribution; the absolute and the squared error judge only its mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, wrightomega
from scipy.stats import norm, poisson

from pmgp.core.numerics.arrays import refuse_masked

N_RATES = 500
"""Number of rates that represent a log-normal distribution."""
REACH, N_STEPS, NEAR = 30.0, 201, 0.1
"""Integrals over log-rates: their reach from the mode and their number of steps, which grow with the distance from the
mode beyond `NEAR`; in widths of the mode. The probability of no count falls over one unit of log-rate, however wide the
mode is."""
LARGE_RATE = 1e9
"""Above this rate a Poisson distribution is taken for normal."""
LARGEST_COUNT = 2**61
"""The largest quantile that is returned; the sum of two of them is still a 64-bit integer."""


class LogRates(NamedTuple):
    """Normal distributions of log-rates for one unit of exposure, (m,) each, and the exposures (m,)."""

    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    exposure: NDArray[np.float64]

    def log_density(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the log-probabilities (m,) of the counts y (m,): log-concave integrals, by the trapezoidal rule.

        No logarithm is off by more than 2e-4 for variances up to 100, nor by more than 0.03 for variances up to 1e5.
        """
        with np.errstate(divide="ignore"):
            mean = self.mean + np.log(self.exposure)
        known = (self.variance == 0.0) | ~np.isfinite(mean)
        mean, variance = np.where(known, 0.0, mean), np.where(known, 1.0, self.variance)
        # The log-rate f with the largest integrand solves y - exp(f) = (f - mean) / variance.
        shifted = mean + variance * y
        mode = shifted - np.real(wrightomega(np.log(variance) + shifted))
        width = (1.0 / variance + np.exp(mode)) ** -0.5
        end = np.arcsinh(REACH / NEAR)
        t, step = np.linspace(-end, end, N_STEPS, retstep=True)
        steps, sizes = NEAR * np.sinh(t)[:, None], NEAR * step * np.cosh(t)[:, None]
        f = mode + width * steps
        logs = poisson.logpmf(y, np.exp(f)) + norm.logpdf(f, mean, np.sqrt(variance))
        total = logsumexp(logs + np.log(sizes), axis=0) + np.log(width)
        return np.where(known, poisson.logpmf(y, self.exposure * np.exp(self.mean)), total)


@dataclass(frozen=True, eq=False)
class PredictedCounts:
    """Predictive distributions of counts, as mixtures of Poisson distributions with equal weights.

    Parameters
    ----------
    rates : ndarray of shape (k, m)
        Rates of the k components at each of the m points.
    log_rates : LogRates, optional
        The normal distributions of the log-rates that the rates represent; densities are integrals over these.

    Examples
    --------
    Log-rates with mean 1 and variance 0.5:

    >>> import pmgp
    >>> predicted = pmgp.scores.counts.PredictedCounts.log_normal([1.0], [0.5])
    >>> predicted.quantile(0.5), predicted.quantile(0.95)
    (array([3]), array([10]))
    >>> predicted.cumulative([10]) > 0.95
    array([ True])
    """

    rates: NDArray[np.float64]
    log_rates: LogRates | None = None

    @classmethod
    def log_normal(cls, mean: ArrayLike, variance: ArrayLike, exposure: ArrayLike = 1.0) -> Self:
        """Return distributions of counts whose log-rate is normal, represented by equally probable quantiles.

        Parameters
        ----------
        mean, variance : array_like of shape (m,)
            Mean and variance of the logarithm of the rate for one unit of exposure.
        exposure : array_like of shape (m,), optional
            Exposure of each count.

        Raises
        ------
        ValueError
            If a variance or an exposure is negative, a value is NaN, or shapes differ.
        """
        for name, given in {"mean": mean, "variance": variance, "exposure": exposure}.items():
            refuse_masked(name, given)
        center, spread = np.asarray(mean, dtype=np.float64), np.asarray(variance, dtype=np.float64)
        units = np.broadcast_to(np.asarray(exposure, dtype=np.float64), center.shape)
        if center.shape != spread.shape:
            raise ValueError(f"mean and variance must have equal shapes, not {center.shape} and {spread.shape}")
        for name, values in {"mean": center, "variance": spread, "exposure": units}.items():
            if np.isnan(values).any():
                raise ValueError(f"{name} is NaN in {np.isnan(values).sum()} of {values.size} predictions")
            if name != "mean" and (values < 0.0).any():
                raise ValueError(f"{name} must not be negative, as {values.min():g} is")
        quantiles = norm.ppf((np.arange(N_RATES) + 0.5) / N_RATES)
        rates = units * np.exp(center + quantiles[:, None] * np.sqrt(spread))
        return cls(rates, LogRates(center, spread, units))

    @property
    def mean(self) -> NDArray[np.float64]:
        """The expected counts (m,), which are infinite where log-rates vary so much that a float cannot hold them."""
        if self.log_rates is None:
            return self.rates.mean(axis=0)
        center, variance, units = self.log_rates
        # The rates that represent a wide distribution miss its largest, which its mean depends on.
        with np.errstate(over="ignore"):
            return np.where(units > 0.0, units * np.exp(center + 0.5 * variance), 0.0)

    def log_density(self, y: ArrayLike) -> NDArray[np.float64]:
        """Return the log-probabilities (m,) of the counts y (m,)."""
        y = self._counts(y)
        if self.log_rates is not None:
            return self.log_rates.log_density(y)
        each: NDArray[np.float64] = logsumexp(poisson.logpmf(y, self.rates), axis=0)
        return each - np.log(len(self.rates))

    def cumulative(self, y: ArrayLike) -> NDArray[np.float64]:
        """Return the probabilities (m,) of counts up to and including y (m,); 0 for y = -1."""
        return np.asarray(poisson.cdf(self._counts(y), self.rates)).mean(axis=0)

    def _counts(self, y: ArrayLike) -> NDArray[np.float64]:
        refuse_masked("y", y)
        counts = np.asarray(y)
        if counts.shape != self.rates.shape[1:]:
            raise ValueError(f"y must have the shape {self.rates.shape[1:]} of the predictions, not {counts.shape}")
        return counts

    def quantile(self, probability: float) -> NDArray[np.int64]:
        """Return the smallest counts (m,) whose cumulative probability is at least `probability`, using bisection."""
        if not 0.0 <= probability < 1.0:
            raise ValueError(f"probability must be at least 0 and below 1, not {probability}")
        # The mixture's quantile lies between those of its components. SciPy has none of large rates, which are normal.
        with np.errstate(invalid="ignore"):
            normal = np.floor(self.rates + norm.ppf(probability) * np.sqrt(self.rates))
            each = np.where(self.rates > LARGE_RATE, normal, poisson.ppf(probability, self.rates))
        each = np.clip(np.nan_to_num(each, nan=LARGEST_COUNT), 0.0, LARGEST_COUNT)
        low, high = each.min(axis=0).astype(np.int64) - 1, each.max(axis=0).astype(np.int64) + 1
        while (high - low > 1).any():
            middle = (low + high) // 2
            enough = self.cumulative(middle) >= probability
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return np.minimum(high, LARGEST_COUNT)


def summarize(y: ArrayLike, mean: ArrayLike, log_density: ArrayLike) -> dict[str, float]:
    """Return all scores by name.

    Parameters
    ----------
    y : array_like of shape (m,)
        Observed counts, or measurements.
    mean : array_like of shape (m,)
        Predicted means.
    log_density : array_like of shape (m,)
        Log probabilities of the observed counts, or log densities of the measurements.

    Returns
    -------
    dict of str to float
        ``log_density``, the mean of the log-densities (nats per point); ``mean_absolute_error`` and
        ``root_mean_squared_error`` of the means, in the unit of y, from scikit-learn.

    Raises
    ------
    ValueError
        If the lengths differ, there are no points, a mean is not finite, or values are masked.
    ImportError
        If scikit-learn is not installed.

    Examples
    --------
    >>> import pmgp
    >>> predicted = pmgp.scores.counts.PredictedCounts.log_normal([0.0, 1.0], [0.5, 0.5])
    >>> scores = pmgp.scores.counts.summarize([1, 4], predicted.mean, predicted.log_density([1, 4]))
    >>> {name: round(score, 2) for name, score in scores.items()}
    {'log_density': -1.72, 'mean_absolute_error': 0.4, 'root_mean_squared_error': 0.41}
    """
    try:
        from sklearn.metrics import mean_absolute_error, root_mean_squared_error
    except ImportError as error:
        raise ImportError('scores of counts need scikit-learn: pip install "pmgp[data]"') from error
    for name, values in {"y": y, "mean": mean, "log_density": log_density}.items():
        refuse_masked(name, values)
    if np.shape(y) != np.shape(log_density):
        raise ValueError(
            f"y and log_density must have equal lengths; their shapes are {np.shape(y)} and {np.shape(log_density)}"
        )
    return {
        "log_density": float(np.mean(np.asarray(log_density))),
        "mean_absolute_error": float(mean_absolute_error(y, mean)),
        "root_mean_squared_error": float(root_mean_squared_error(y, mean)),
    }
