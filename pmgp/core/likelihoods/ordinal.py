"""Ordinal labels: the interval between thresholds that the latent value falls into, blurred by normal noise.

See appendix B.4 of the comparative evaluation.
"""

from __future__ import annotations

from functools import cached_property, partial

import numpy as np
from scipy.special import ndtr

from pmgp.core.likelihoods.base import FactorizingLikelihood, NoisyLimits
from pmgp.core.likelihoods.checks import check_categories, check_positive, check_same_length, check_thresholds
from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.numerics.compiled.loading import compiled, for_rows
from pmgp.core.numerics.quadrature import TiltedMoments

NO_SITES = np.empty(0)


class OrdinalProbit(FactorizingLikelihood):
    """P(y = s|f) = Phi((b_(s+1) - f) / noise) - Phi((b_s - f) / noise), with b_0 and b_r infinite.

    Parameters
    ----------
    y : (n,) array
        Labels 0, ..., r - 1.
    thresholds : (r - 1,) array
        b_1 < ... < b_(r-1), on the scale of f.
    noise : float or (n,) array
        Standard deviation of the noise, on the scale of f.

    Raises
    ------
    ValueError
        For other labels; for thresholds that are not finite and strictly increasing; for a noise that is not positive
        and finite, or that differs in length from the labels.
    """

    def __init__(self, y: np.ndarray, thresholds: np.ndarray, noise: np.ndarray | float = 1.0) -> None:
        thresholds = check_thresholds(thresholds)
        y = check_categories(y, thresholds.size + 1)
        self.noise = check_positive("noise", noise)
        check_same_length("noise", self.noise, y)
        self.limits = np.concatenate([[-np.inf], thresholds, [np.inf]])
        self.lower, self.upper = self.limits[y], self.limits[y + 1]

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (..., n) -> (..., n)."""
        return self._interval(f).log_probability()

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., n) -> (...).

        Only the absolute error of the sum matters. A difference of two distribution functions in the lower tail keeps
        it small, and takes a fraction of the time, unless almost nothing is left of the difference.
        """
        return for_rows(partial(compiled("ordinal.log_ratios"), self.data, NO_SITES, NO_SITES), f)

    @cached_property
    def data(self) -> np.ndarray:
        """Lower and upper limits, and the noise: (3, n)."""
        return np.array([self.lower, self.upper, np.broadcast_to(self.noise, self.lower.shape)])

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f."""
        return self._interval(f).mean() / self.noise

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f, between 0 and 1 / noise^2."""
        return self._interval(f).variance_deficit() / self.noise**2

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return gradient and curvature, which share one interval."""
        interval = self._interval(f)
        return interval.mean() / self.noise, interval.variance_deficit() / self.noise**2

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f."""
        return self._interval(f).third_cumulant() / self.noise**3

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Sum over the labels s of p(s|f) (d log p(s|f) / df)^2."""
        each = self._between(self.limits[:-1, None], self.limits[1:, None], f)
        return (np.exp(each.log_probability()) * np.square(each.mean() / self.noise)).sum(axis=0)

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments:
        """Return means, variances and log normalizers of p(y_i|f_i) N(f_i|mean, variance), in closed form.

        The normalizer is the probability of the label with the variance in the noise. Its derivatives in the mean give
        the moments.
        """
        wider = np.sqrt(np.square(self.noise) + variance)
        lower, upper = ((limit - mean) / wider for limit in (self.lower, self.upper))
        interval = NormalInterval(lower, upper, (self.upper - self.lower) / wider)
        slope = variance / wider
        return TiltedMoments(
            mean + slope * interval.mean(),
            variance - np.square(slope) * interval.variance_deficit(),
            interval.log_probability(),
        )

    def noisy_limits(self) -> NoisyLimits:
        """Return the thresholds below and above each label, for f plus normal noise."""
        return NoisyLimits(self.lower, self.upper, np.broadcast_to(self.noise, self.lower.shape))

    @staticmethod
    def probabilities(
        mean: np.ndarray, variance: np.ndarray, thresholds: np.ndarray, noise: np.ndarray | float = 1.0
    ) -> np.ndarray:
        """Return P(y = s) for f ~ N(mean, variance): (m,) arrays to (m, r).

        They are computed in the tail in which the interval lies: a difference of two numbers close to 1 would be zero.
        """
        scale = np.sqrt(np.square(noise) + variance)
        limits = (thresholds - mean[:, None]) / scale[:, None]
        limits = np.pad(limits, ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf))
        lower, upper = limits[:, :-1], limits[:, 1:]
        reflect = lower + upper > 0.0
        return ndtr(np.where(reflect, -lower, upper)) - ndtr(np.where(reflect, -upper, lower))

    @classmethod
    def expected_label(
        cls, mean: np.ndarray, variance: np.ndarray, thresholds: np.ndarray, noise: np.ndarray | float = 1.0
    ) -> np.ndarray:
        """Return E[y] for f ~ N(mean, variance): (m,) arrays to (m,)."""
        each = cls.probabilities(mean, variance, thresholds, noise)
        return each @ np.arange(each.shape[-1])

    def _interval(self, f: np.ndarray) -> NormalInterval:
        return self._between(self.lower, self.upper, f)

    def _between(self, lower: np.ndarray, upper: np.ndarray, f: np.ndarray) -> NormalInterval:
        """Return the interval in which the noise lies, in standard deviations."""
        return NormalInterval((lower - f) / self.noise, (upper - f) / self.noise, (upper - lower) / self.noise)
