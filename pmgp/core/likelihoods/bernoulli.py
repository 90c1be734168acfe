"""Binary labels: probit and logit links, without overflow or cancellation far into both tails.

The pseudo-marginal article uses the probit link (its equation 1), the comparative evaluation the logit one.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from scipy.special import expit, log_ndtr, ndtr

from pmgp.core.likelihoods.base import FactorizingLikelihood, NoisyLimits
from pmgp.core.likelihoods.checks import check_binary
from pmgp.core.likelihoods.normal_tails import excess, hazard, third_derivative
from pmgp.core.numerics.compiled.loading import compiled, for_rows, vectors
from pmgp.core.numerics.quadrature import TiltedMoments, normal_expectation

LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)
NO_SITES = np.empty(0)


def _signs(y: np.ndarray) -> np.ndarray:
    """Map labels 0/1 to -1/+1."""
    return 2.0 * check_binary(y) - 1.0


class BernoulliProbit(FactorizingLikelihood):
    """P(y = 1|f) = Phi(f), the normal distribution function.

    Parameters
    ----------
    y : (n,) array
        Labels 0 or 1.

    Raises
    ------
    ValueError
        For any other label.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.likelihoods import BernoulliProbit
    >>> round(float(BernoulliProbit(np.array([1, 0])).log_likelihood(np.array([0.0, 0.0]))), 3)
    -1.386
    """

    def __init__(self, y: np.ndarray) -> None:
        self.sign = _signs(y)

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (..., n) -> (..., n)."""
        return log_ndtr(self.sign * f)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., n) -> (...).

        Only the absolute error of the sum matters. Unless a probability underflows, a plain logarithm, or that of a
        product, keeps it small and takes less time than `log_ndtr`.
        """
        return for_rows(partial(compiled("probit.log_ratios"), self.sign, NO_SITES, NO_SITES), f)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f."""
        return self.sign * hazard(self.sign * f)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f, between 0 and 1."""
        z = self.sign * f
        return hazard(z) * excess(z)

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature, which share one hazard."""
        gradient, curvature = out = np.empty((2, len(self.sign)))
        compiled("probit.derivatives")(self.sign, *vectors(f), out)
        return gradient, curvature

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f."""
        return self.sign * third_derivative(self.sign * f)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return phi(f)^2 / (Phi(f) Phi(-f))."""
        return np.exp(-f * f - 2.0 * LOG_SQRT_2PI - log_ndtr(f) - log_ndtr(-f))

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments:
        """Return means, variances and log normalizers of p(y_i|f_i) N(f_i|mean, variance), in closed form."""
        out = np.empty((3, len(self.sign)))
        compiled("probit.tilted_moments")(self.sign, *vectors(mean, variance), out)
        return TiltedMoments(*out)

    def noisy_limits(self) -> NoisyLimits:
        """Return zero and infinity for f + e, e standard normal, with the label's sign."""
        positive = self.sign > 0.0
        return NoisyLimits(np.where(positive, 0.0, -np.inf), np.where(positive, np.inf, 0.0), np.ones_like(self.sign))

    @staticmethod
    def probability(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return P(y = 1) for f ~ N(mean, variance), in closed form (equation 8)."""
        return ndtr(mean / np.sqrt(1.0 + variance))


class BernoulliLogit(FactorizingLikelihood):
    """P(y = 1|f) = 1 / (1 + exp(-f)).

    Parameters
    ----------
    y : (n,) array
        Labels 0 or 1.

    Raises
    ------
    ValueError
        For any other label.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.likelihoods import BernoulliLogit
    >>> round(float(BernoulliLogit(np.array([1, 0])).log_likelihood(np.array([0.0, 0.0]))), 3)
    -1.386
    """

    def __init__(self, y: np.ndarray) -> None:
        self.sign = _signs(y)

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (..., n) -> (..., n)."""
        return -np.logaddexp(0.0, -self.sign * f)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., n) -> (...).

        The logarithms are summed separately, in a vectorized loop, which `logaddexp` does not have.
        """
        z = self.sign * f
        return np.minimum(z, 0.0).sum(axis=-1) - np.log1p(np.exp(-np.abs(z))).sum(axis=-1)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f."""
        return self.sign * expit(-self.sign * f)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f; it does not depend on the labels."""
        return expit(f) * expit(-f)

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f; it does not depend on the labels either."""
        return self.curvature(f) * np.tanh(0.5 * f)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the expected curvature, which is the curvature for this canonical link."""
        return self.curvature(f)

    @staticmethod
    def probability(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        """Return P(y = 1) for f ~ N(mean, variance), by quadrature."""
        return normal_expectation(expit, np.asarray(mean, dtype=float), np.asarray(variance, dtype=float))
