"""Log-probability and cumulants of a standard normal variable u between two limits, far into both tails.

The log-density of an ordinal observation is the log-probability, and its derivatives in f are the mean, the variance
less one, and the third cumulant of u given that it lies in the interval (up to powers of the noise). An interval in the
upper tail is reflected into the lower one. There the interval is compared with the half-line below its upper limit: it
lacks the share q of that probability, and r is the ratio of the densities at the limits. Gauss-Legendre quadrature
replaces this for intervals so narrow that q is close to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import erfcx, log_ndtr

from pmgp.core.likelihoods.normal_tails import excess, hazard, third_derivative

NODES, WEIGHTS = leggauss(32)
# For wider intervals, or a density that falls by more than exp(-STEEP) over them, the closed form loses no digits.
NARROW = 1.0
STEEP = 20.0
LOG_SQRT_2PI = 0.5 * np.log(2.0 * np.pi)


class _HalfLine(NamedTuple):
    """An interval as the half-line below `upper`, less the share `lacking` of it.

    - `upper`: the limit that is nearer to the center
    - `lacking`, `ratio`: q = Phi(lower) / Phi(upper) and r = phi(lower) / phi(upper)
    - `less`: 1 - r, without cancellation
    - `weighted`: r times the lower limit; zero for an infinite one
    """

    upper: np.ndarray
    lacking: np.ndarray
    ratio: np.ndarray
    less: np.ndarray
    weighted: np.ndarray


class NormalInterval:
    """The interval between two limits, elementwise on arrays that broadcast together.

    - `lower`, `upper`: the limits; one may be infinite
    - `width`: their difference, which cannot be computed without rounding from limits far out
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray, width: np.ndarray) -> None:
        reflect = lower + upper > 0.0
        self.sign = np.where(reflect, -1.0, 1.0)
        self.lower = np.where(reflect, -upper, lower)
        self.upper = np.where(reflect, -lower, upper)
        self.width = np.broadcast_to(width, self.lower.shape)
        slope = -0.5 * (self.lower + self.upper)
        self.narrow = (self.width < NARROW) & (self.width * slope < STEEP)
        self.exponent = -self.width * slope

    def log_probability(self) -> np.ndarray:
        """Return log P(lower < u < upper)."""
        result = np.asarray(log_ndtr(self.upper) + np.log1p(-self._lacking()))
        if self.narrow.any():
            result[self.narrow] = self._quadrature()[0]
        return result

    def mean(self) -> np.ndarray:
        """Return E[u], given the interval."""
        line = self._half_line()
        result = np.asarray(-hazard(line.upper) * line.less / (1.0 - line.lacking))
        if self.narrow.any():
            result[self.narrow] = self._quadrature()[1]
        return self.sign * result

    def variance_deficit(self) -> np.ndarray:
        """Return 1 - var(u), given the interval: between 0 and 1."""
        result = self._deficit(self._half_line())
        if self.narrow.any():
            result[self.narrow] = 1.0 - self._quadrature()[2]
        return result

    def third_cumulant(self) -> np.ndarray:
        """Return E[(u - E[u])^3], given the interval."""
        line = self._half_line()
        h, e = hazard(line.upper), excess(line.upper)
        share = 1.0 - line.lacking
        deficit = self._deficit(line)
        # The lower limit's contribution to the third cumulant of the half-line, -(log Phi)''', is of the order of r.
        shift = h * (line.lacking - line.ratio) / share
        lower = np.where(line.ratio > 0.0, self.lower, 0.0) + h * line.less / share
        added = (h * e - deficit) + line.ratio * (np.square(lower) - (1.0 - deficit)) - shift * (2.0 * e + shift)
        result = np.asarray((h * added - third_derivative(line.upper)) / share)
        if self.narrow.any():
            result[self.narrow] = self._quadrature()[3]
        return self.sign * result

    def _lacking(self) -> np.ndarray:
        """Return Phi(lower) / Phi(upper); zero for the narrow intervals, which use quadrature."""
        ratio = erfcx(-self.lower / np.sqrt(2.0)) / erfcx(-self.upper / np.sqrt(2.0))
        return np.where(self.narrow, 0.0, ratio * np.exp(self.exponent))

    def _half_line(self) -> _HalfLine:
        ratio = np.exp(self.exponent)
        weighted = ratio * np.where(ratio > 0.0, self.lower, 0.0)
        return _HalfLine(self.upper, self._lacking(), ratio, -np.expm1(self.exponent), weighted)

    @staticmethod
    def _deficit(line: _HalfLine) -> np.ndarray:
        """Return h (z_u + h - r z_l), with sums ordered so that far out only terms of the order of r cancel."""
        h = hazard(line.upper) / (1.0 - line.lacking)
        inner = h * (line.lacking - line.ratio * (2.0 - line.ratio))
        return np.asarray(h * (excess(line.upper) + inner - line.weighted))

    def _quadrature(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the log-probability, mean, variance and third cumulant of the narrow intervals."""
        width = self.width[self.narrow]
        middle = 0.5 * (self.lower + self.upper)[self.narrow]
        t = 0.5 * width * NODES[:, None]
        density = 0.5 * WEIGHTS[:, None] * np.exp(-middle * t - 0.5 * np.square(t))
        total = density.sum(axis=0)
        density /= total
        shift = (density * t).sum(axis=0)
        variance, third = ((density * (t - shift) ** k).sum(axis=0) for k in (2, 3))
        log_probability = np.log(width * total) - 0.5 * np.square(middle) - LOG_SQRT_2PI
        return log_probability, middle + shift, variance, third
