"""Expectation propagation for a Gaussian between limits (Cunningham, Hennig and Lacoste-Julien 2011)."""

from __future__ import annotations

import numpy as np

from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.gaussians.sites import SMALLEST_PRECISION
from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.numerics.quadrature import TiltedMoments
from pmgp.core.orthants.problem import TruncatedNormal

__all__ = ["Limits", "matched_limits", "weakened"]

# Of the variance that the other limits leave, what one leaves at least. Narrower ones get wider sites, with which the
# draws are as exact; precisions beyond this lose their last digits where they are subtracted.
SMALLEST_SHARE = 1e-6
TOLERANCE = 0.01
# How far sites that say next to nothing are weakened, and how fast that ceases for those that say more: measured. At a
# variance of 50 it halves the spread of log-estimates; where all sites say much it changes nothing.
WEAKENING, FADING = 0.6, 6


class Limits:
    """Terms 1[lower <= v <= upper], as far as moment matching needs to know them.

    Parameters
    ----------
    lower, upper : (n,) array
    """

    def __init__(self, lower: np.ndarray, upper: np.ndarray) -> None:
        self.lower, self.upper = lower, upper

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments:
        """Mean, variance and log-probability of N(mean, variance) between the limits: (n,) arrays."""
        scale = np.sqrt(variance)
        width = (self.upper - self.lower) / scale
        interval = NormalInterval((self.lower - mean) / scale, (self.upper - mean) / scale, width)
        share = np.maximum(1.0 - interval.variance_deficit(), SMALLEST_SHARE)
        return TiltedMoments(mean + scale * interval.mean(), variance * share, interval.log_probability())


def matched_limits(problem: TruncatedNormal) -> tuple[np.ndarray, np.ndarray]:
    """Sites (c, u) for the limits of the standardized variables, zero for those without: two (n,) arrays.

    Where sweeps do not converge, the sites are those of the last: with any, what is drawn is exact.
    """
    bound = np.flatnonzero(~problem.free)
    linear, precision = np.zeros(problem.size), np.zeros(problem.size)
    if not bound.size:
        return linear, precision
    covariance = np.asfortranarray(problem.correlation[np.ix_(bound, bound)])
    conditioned = Conditioning(DensePrior(np.zeros(len(bound)), covariance))
    conditioned.on(np.zeros(len(bound)), np.full(len(bound), SMALLEST_PRECISION))
    lower, upper = problem.limits
    ExpectationPropagation(TOLERANCE).sweep(conditioned, Limits(lower[bound], upper[bound]))
    conditioned.on(conditioned.linear, conditioned.precision)
    sites = conditioned.linear, conditioned.precision
    linear[bound], precision[bound] = weakened(*sites, conditioned.inverse_diagonal)
    return linear, precision


def weakened(linear: np.ndarray, precision: np.ndarray, left: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sites to draw with, from those that match.

    A limit that is far away leaves the variable as it is, while a Gaussian site decays in its tails. Many such sites
    make q too narrow in directions where no limit is, and the weights uneven, above all those of antithetic pairs.

    Parameters
    ----------
    linear, precision : (n,) array
    left : (n,) array
        Share of each variable's variance that its site leaves, the diagonal of B^-1.
    """
    power = 1.0 - WEAKENING * np.clip(left, 0.0, 1.0) ** FADING
    return power * linear, power * precision
