"""Expectation propagation for a Gaussian between limits (Cunningham, Hennig and Lacoste-Julien 2011)."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.gaussians import SMALLEST_PRECISION, DensePrior
from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.likelihoods.normal_tails import excess, hazard
from pmgp.core.numerics.quadrature import TiltedMoments
from pmgp.core.orthants.problem import TruncatedNormal

# The smallest factor by which one limit may reduce the variance that the others leave. Narrower limits get wider sites,
# with which draws are equally exact; larger precisions would lose their last digits when they are subtracted.
SMALLEST_SHARE = 1e-2
TOLERANCE = 0.01
# From experiments: how far the least informative sites are weakened, and how fast that fades for more informative ones.
# At a variance of 50 it halves the spread of log-estimates; if all sites are informative it changes nothing.
WEAKENING, FADING = 0.6, 6


class Limits:
    """Terms 1[lower <= v <= upper], with the methods that moment matching needs.

    `lower`, `upper` (n,).

    `cavity_variance` (n,): the variance in the last call of `tilted_moments`.
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self.lower, self.upper = lower, upper
        self.cavity_variance = np.ones_like(lower)
        self.moments = self._of_half_lines if np.isinf(upper - lower).all() else self._of_intervals

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments:
        """Return mean, variance and log-probability of N(mean, variance) between the limits: (n,) arrays."""
        self.cavity_variance = variance
        scale = np.sqrt(variance)
        shift, deficit, log_probability = self.moments(mean, scale)
        share = np.maximum(1.0 - deficit, SMALLEST_SHARE)
        return TiltedMoments(mean + scale * shift, variance * share, log_probability)

    def separate_sites(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the sites that match the moments of each variable alone, with mean 0 and variance 1 in the prior."""
        mean, variance, _ = self.tilted_moments(np.zeros_like(self.lower), np.ones_like(self.lower))
        return mean / variance, np.maximum(1.0 / variance - 1.0, SMALLEST_PRECISION)

    def _of_intervals(self, mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the standardized mean, one minus the standardized variance, and the log-probability."""
        width = (self.upper - self.lower) / scale
        interval = NormalInterval((self.lower - mean) / scale, (self.upper - mean) / scale, width)
        return interval.mean(), interval.variance_deficit(), interval.log_probability()

    def _of_half_lines(self, mean: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the same for variables with one limit each, in a third of the time."""
        above = np.isposinf(self.upper)
        sign = np.where(above, 1.0, -1.0)
        z = sign * (mean - np.where(above, self.lower, self.upper)) / scale
        h = hazard(z)
        return sign * h, h * excess(z), log_ndtr(z)


def matched_limits(problem: TruncatedNormal) -> tuple[np.ndarray, np.ndarray]:
    """Return sites (c, u) for the limits of the standardized variables, zero for free variables: two (n,) arrays.

    If the sweeps do not converge, the sites of the last one are returned: the draws are exact with any sites.
    """
    bound = np.flatnonzero(~problem.free)
    linear, precision = np.zeros(problem.size), np.zeros(problem.size)
    if not bound.size:
        return linear, precision
    correlation = problem.correlation if bound.size == problem.size else problem.correlation[np.ix_(bound, bound)]
    # The matrix is symmetric, and its transpose is in Fortran order.
    conditioned = DensePrior(np.zeros(len(bound)), correlation.T).conditioning()
    lower, upper = problem.limits
    limits = Limits(lower[bound], upper[bound])
    conditioned.on(*limits.separate_sites())
    ExpectationPropagation(TOLERANCE).sweep(conditioned, limits)
    left = 1.0 / (1.0 + conditioned.precision * limits.cavity_variance)
    linear[bound], precision[bound] = weakened(conditioned.linear, conditioned.precision, left)
    return linear, precision


def weakened(linear: np.ndarray, precision: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weakened sites for drawing, made from the matched ones.

    A distant limit hardly affects a variable, while a Gaussian site decays in its tails. Many such sites make q too
    narrow in directions without limits, and the weights uneven, above all those of antithetic pairs.

    `linear`, `precision` (n,); `left` (n,): the diagonal of B^-1, the factor by which its site reduces a variable's
    variance.
    """
    power = 1.0 - WEAKENING * np.clip(left, 0.0, 1.0) ** FADING
    return power * linear, power * precision
