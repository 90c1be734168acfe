"""Counts with a log-normal rate: the log-Gaussian Cox process on cells (appendix B.2 of the comparative evaluation)."""

from __future__ import annotations

from copy import copy

import numpy as np
from scipy.special import gammaln

from pmgp.core.likelihoods.base import FactorizingLikelihood
from pmgp.core.likelihoods.checks import check_counts, check_positive, check_same_length

# Larger log-rates are cut off, so that rates, their squares and their sums stay finite.
MAX_LOG_RATE = 300.0


class LogGaussianCox(FactorizingLikelihood):
    """Counts y_i ~ Poisson(exposure_i exp(f_i)).

    Parameters
    ----------
    y : (n,) array
        Counts.
    exposure : float or (n,) array
        Area or duration over which each count was collected.

    Raises
    ------
    ValueError
        For counts that are negative or not whole numbers, and for exposures that are not positive and finite or that
        differ in length from the counts.

    Notes
    -----
    Rates stop growing at exp(300), where the density is practically zero, so that no f overflows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.likelihoods import LogGaussianCox
    >>> round(float(LogGaussianCox(np.array([0, 1])).log_likelihood(np.array([0.0, 0.0]))), 3)
    -2.0
    """

    def __init__(self, y: np.ndarray, exposure: np.ndarray | float = 1.0) -> None:
        self.y = check_counts(y)
        exposure = check_positive("exposure", exposure)
        check_same_length("exposure", exposure, self.y)
        self.log_exposure = np.log(exposure)
        self._constant = self.y * self.log_exposure - gammaln(self.y + 1.0)

    def subset(self, sites: slice | np.ndarray) -> LogGaussianCox:
        """Return the likelihood of only these observations."""
        part = copy(self)
        part.y, part._constant = self.y[sites], self._constant[sites]
        part.log_exposure = np.broadcast_to(self.log_exposure, self.y.shape)[sites]
        return part

    def _rate(self, f: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(f + self.log_exposure, MAX_LOG_RATE))

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (..., n) -> (..., n)."""
        return self.y * f + self._constant - self._rate(f)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f."""
        return self.y - self._rate(f)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f: the rate, whatever the counts."""
        return self._rate(f)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature, which share one rate."""
        rate = self._rate(f)
        return self.y - rate, rate

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f."""
        return -self._rate(f)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the expected curvature, which is the curvature for this canonical link."""
        return self._rate(f)
