"""Returns whose log standard deviation is the latent process (appendix B.3 of the comparative evaluation)."""

from __future__ import annotations

from copy import copy

import numpy as np

from pmgp.core.likelihoods.base import FactorizingLikelihood
from pmgp.core.likelihoods.checks import check_finite

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
# Larger logs of a squared standardized observation are cut off, so that squares and sums stay finite.
MAX_LOG_SQUARE = 300.0


class StochasticVolatility(FactorizingLikelihood):
    """Observations y_i ~ N(0, exp(f_i)^2).

    Parameters
    ----------
    y : (n,) array
        For example returns, with their mean subtracted.

    Raises
    ------
    ValueError
        For observations that are not finite.

    Notes
    -----
    Squared standardized observations stop growing at exp(300), where the density is practically zero, so that no f
    overflows.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.likelihoods import StochasticVolatility
    >>> round(float(StochasticVolatility(np.array([0.0, 1.0])).log_likelihood(np.array([0.0, 0.0]))), 3)
    -2.338
    """

    def __init__(self, y: np.ndarray) -> None:
        with np.errstate(divide="ignore"):
            self.log_square = 2.0 * np.log(np.abs(check_finite(y)))

    def subset(self, sites: slice | np.ndarray) -> StochasticVolatility:
        """Return the likelihood of only these observations."""
        part = copy(self)
        part.log_square = self.log_square[sites]
        return part

    def _square(self, f: np.ndarray) -> np.ndarray:
        """Return (y_i / exp(f_i))^2."""
        return np.exp(np.minimum(self.log_square - 2.0 * f, MAX_LOG_SQUARE))

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (..., n) -> (..., n)."""
        return -LOG_SQRT_2PI - f - 0.5 * self._square(f)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f."""
        return self._square(f) - 1.0

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f; zero where the observation is."""
        return 2.0 * self._square(f)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature, which share one square."""
        square = self._square(f)
        return square - 1.0, 2.0 * square

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f."""
        return 4.0 * self._square(f)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the expected curvature: 2 everywhere."""
        return np.full_like(f, 2.0, dtype=float)
