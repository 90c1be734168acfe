"""Binary labels: probit and logit links, without overflow or cancellation far into both tails.

The pseudo-marginal article uses the probit link (its equation 1), the comparative evaluation the logit one.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from pmgp.quadrature import normal_expectation, tilted_moments

__all__ = ["BernoulliLogit", "BernoulliProbit"]

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


def _signs(y: np.ndarray) -> np.ndarray:
    """Map labels 0/1 to -1/+1, refusing everything else."""
    y = np.asarray(y)
    wrong = y[~np.isin(y, (0, 1))]
    if wrong.size:
        shown = ", ".join(str(value) for value in np.unique(wrong)[:5])
        raise ValueError(f"binary labels must be 0 or 1, found {shown}; recode them, for example (y > 0).astype(int)")
    return 2.0 * y - 1.0


class BernoulliProbit:
    """P(y = 1|f) = Phi(f), the normal distribution function.

    Parameters
    ----------
    y : (n,) array
        Labels 0 or 1.

    Raises
    ------
    ValueError
        For any other label.
    """

    def __init__(self, y: np.ndarray) -> None:
        self.sign = _signs(y)

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Log p(y_i|f_i): (..., n) -> (..., n)."""
        return log_ndtr(self.sign * f)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Log p(y|f): (..., n) -> (...)."""
        return self.log_density(f).sum(axis=-1)

    def _hazard(self, z: np.ndarray) -> np.ndarray:
        """phi(z) / Phi(z), in logs so that it tends to -z in the left tail."""
        return np.exp(-0.5 * z * z - LOG_SQRT_2PI - log_ndtr(z))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """First derivative in f."""
        return self.sign * self._hazard(self.sign * f)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Minus the second derivative in f, between 0 and 1."""
        z = self.sign * f
        hazard = self._hazard(z)
        # hazard + z cancels in the left tail, where the curvature tends to 1 - 2 / z^2.
        exact = hazard * (hazard + z)
        z2 = np.square(np.minimum(z, -1.0))
        return np.where(z < -1e4, 1.0 - 2.0 / z2, exact)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """phi(f)^2 / (Phi(f) Phi(-f))."""
        return np.exp(-f * f - 2.0 * LOG_SQRT_2PI - log_ndtr(f) - log_ndtr(-f))

    def tilted_moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of p(y_i|f_i) N(f_i|mean, variance), normalized, in closed form."""
        scale = np.sqrt(1.0 + variance)
        z = self.sign * mean / scale
        hazard = self._hazard(z)
        tilted_mean = mean + self.sign * variance * hazard / scale
        return tilted_mean, variance - np.square(variance / scale) * hazard * (z + hazard)

    @staticmethod
    def probability(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(y = 1) for f ~ N(mean, variance), in closed form (equation 8)."""
        return ndtr(mean / np.sqrt(1.0 + variance))


class BernoulliLogit:
    """P(y = 1|f) = 1 / (1 + exp(-f)).

    Parameters
    ----------
    y : (n,) array
        Labels 0 or 1.

    Raises
    ------
    ValueError
        For any other label.
    """

    def __init__(self, y: np.ndarray) -> None:
        self.sign = _signs(y)

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Log p(y_i|f_i): (..., n) -> (..., n)."""
        return -np.logaddexp(0.0, -self.sign * f)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Log p(y|f): (..., n) -> (...)."""
        return self.log_density(f).sum(axis=-1)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """First derivative in f."""
        return self.sign * expit(-self.sign * f)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Minus the second derivative in f; it does not depend on the labels."""
        return expit(f) * expit(-f)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Expected curvature; equal to it for this canonical link."""
        return self.curvature(f)

    def tilted_moments(self, mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of p(y_i|f_i) N(f_i|mean, variance), normalized, by quadrature."""
        return tilted_moments(self.log_density, mean, variance)

    @staticmethod
    def probability(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """P(y = 1) for f ~ N(mean, variance), by Gauss-Hermite quadrature."""
        return normal_expectation(expit, mean, variance)
