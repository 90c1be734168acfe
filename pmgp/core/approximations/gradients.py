"""Gradients of the approximations' log-evidence in K, in m and in the likelihood's parameters.

With R = W^1/2 B^-1 W^1/2 and alpha = K^-1 (mu - m) = b - W mu, the evidence of Gaussian sites has the gradients
(alpha alpha' - R) / 2 in K and alpha in m. Expectation propagation's is stationary in its sites, so that these are all.
Laplace's sites move with the mode: Algorithm 5.1 of Rasmussen and Williams (2006), here for any m and in one piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from pmgp.core.approximations.moment_matching import cavities
from pmgp.core.gaussians import SiteApproximation
from pmgp.core.likelihoods.base import Likelihood, SiteLikelihood
from pmgp.core.numerics import linalg

__all__ = ["EvidenceGradient", "laplace_gradient", "matched_gradient"]


class EvidenceGradient(NamedTuple):
    """How the log-evidence changes.

    Attributes
    ----------
    covariance : (n, n) or (C, n, n) array
        Lower triangle of the gradient in K, which is symmetric; of several latent vectors in each K_c.
    mean : (n,) array
        Gradient in m.
    along : callable
        A function of the likelihood that changes with its parameters as the log-evidence does.
    """

    covariance: np.ndarray
    mean: np.ndarray
    along: Callable[[Likelihood], float]


def matched_gradient(q: SiteApproximation, likelihood: Likelihood) -> EvidenceGradient | None:
    """Gradient of expectation propagation's log-evidence at a fixed point; None where K turns out to be indefinite."""
    alpha = q.linear - q.precision * q.mean
    inverse = q.inverse()
    cavity = cavities(q, inverse.diagonal().copy())
    if cavity is None:
        return None
    near = (q.mean, cavity.marginal_variance)

    def along(other: Likelihood) -> float:
        tilted = other.tilted_moments(cavity.mean, cavity.variance, near)
        return np.nan if tilted is None else float(tilted.log_normalizer.sum())

    return EvidenceGradient(_at_fixed_sites(inverse, q.precision, alpha), alpha, along)


def laplace_gradient(q: SiteApproximation, likelihood: SiteLikelihood) -> EvidenceGradient:
    """Gradient of Laplace's log-evidence at the mode."""
    mode, root = q.mean, np.sqrt(q.precision)
    alpha = q.linear - q.precision * mode
    inverse = q.inverse()
    variances = (1.0 - inverse.diagonal()) / q.precision
    # How -log|B|/2 changes with the mode, and with what would move the mode if K did not pull it back.
    by_mode = 0.5 * variances * likelihood.third_derivative(mode)
    by_shift = by_mode - root * linalg.symmetric_product(inverse, root * q.prior.product(by_mode))
    by_gradient = q.prior.product(by_shift)
    gradient = linalg.add_outer(_at_fixed_sites(inverse, q.precision, alpha), by_shift, alpha)

    def along(other: Likelihood) -> float:
        slope, curvature = other.derivatives(mode)
        explicit = float(other.log_likelihood(mode)) - 0.5 * float(variances @ curvature)
        return explicit + float(by_gradient @ slope)

    return EvidenceGradient(gradient, alpha + by_shift, along)


def _at_fixed_sites(inverse: np.ndarray, precision: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Lower triangle of (alpha alpha' - W^1/2 B^-1 W^1/2) / 2, in place of that of B^-1."""
    root = np.sqrt(0.5 * precision)
    # Above the diagonal stands what was in memory.
    with np.errstate(all="ignore"):
        inverse *= root
        inverse *= -root[:, None]
    return linalg.add_outer(inverse, alpha)
