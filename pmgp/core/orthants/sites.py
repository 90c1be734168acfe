"""Expectation propagation for a Gaussian between limits (Cunningham, Hennig and Lacoste-Julien 2011)."""

from __future__ import annotations

import numpy as np

from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.gaussians.sites import SMALLEST_PRECISION
from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.numerics.quadrature import TiltedMoments
from pmgp.core.orthants.problem import TruncatedNormal

__all__ = ["Limits", "matched_limits"]

# Of the variance that the other limits leave, what one leaves at least. Narrower ones get wider sites, with which the
# draws are as exact; precisions beyond this lose their last digits where they are subtracted.
SMALLEST_SHARE = 1e-6
TOLERANCE = 0.01


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
    linear[bound], precision[bound] = conditioned.linear, conditioned.precision
    return linear, precision
