"""Gradients of the approximations' log-evidence in K, in m and in the likelihood's parameters.

With R = W^1/2 B^-1 W^1/2 and alpha = K^-1 (mu - m) = b - W mu, the evidence of Gaussian sites has the gradients
(alpha alpha' - R) / 2 in K and alpha in m. Expectation propagation's evidence is stationary in its sites, so there are
no other terms. Laplace's sites move with the mode: Algorithm 5.1 of Rasmussen and Williams (2006), here for any m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from pmgp.core.approximations.moment_matching import cavities
from pmgp.core.gaussians import Posterior
from pmgp.core.likelihoods.base import Likelihood, SiteLikelihood, slope_of_precision, sound_precision

# Relative error of the motion of Laplace's mode where curvatures are negative.
MOTION = 1e-8


class EvidenceGradient(NamedTuple):
    """Gradient of the log-evidence.

    `covariance`: the bar for K, in the form of q's kind of Gaussian; `mean` (n,): gradient in m; `along`: a function of
    the likelihood whose derivatives in the likelihood's parameters are those of the log-evidence.
    """

    covariance: Any
    mean: np.ndarray
    along: Callable[[Likelihood], float]


def matched_gradient(q: Posterior, likelihood: Likelihood) -> EvidenceGradient | None:
    """Return the gradient of expectation propagation's log-evidence at a fixed point; None where K is indefinite."""
    alpha = q.linear - q.precision * q.mean
    bar, inverse_diagonal = q.covariance_bar(alpha)
    cavity = cavities(q, inverse_diagonal)
    if cavity is None:
        return None
    near = (q.mean, cavity.marginal_variance)

    def along(other: Likelihood) -> float:
        tilted = other.tilted_moments(cavity.mean, cavity.variance, near)
        return np.nan if tilted is None else float(tilted.log_normalizer.sum())

    return EvidenceGradient(bar, alpha, along)


def laplace_gradient(q: Posterior, likelihood: SiteLikelihood) -> EvidenceGradient:
    """Return the gradient of Laplace's log-evidence at the mode."""
    mode = q.mean
    alpha = q.linear - q.precision * mode
    bar, inverse_diagonal = q.covariance_bar(alpha)
    variances = q.variance_given(inverse_diagonal)
    # Derivative of -log|B|/2 in the mode, then in the gradient of the likelihood, which moves the mode.
    by_mode = -0.5 * variances * slope_of_precision(likelihood, mode, variances)
    load = load_of_motion(q.product, by_mode, q.precision, likelihood.curvature(mode))
    by_gradient = q.product(load)
    by_shift = load - q.precision * by_gradient

    def along(other: Likelihood) -> float:
        slope, curvature = other.derivatives(mode)
        precision = sound_precision(other, mode, curvature)
        explicit = float(other.log_likelihood(mode)) - 0.5 * float(variances @ precision)
        return explicit + float(by_gradient @ slope)

    return EvidenceGradient(q.shifted_bar(bar, by_shift, alpha), alpha + by_shift, along)


def load_of_motion(
    product: Callable[[np.ndarray], np.ndarray], v: np.ndarray, precision: np.ndarray, curvature: np.ndarray
) -> np.ndarray:
    """Return r with (K^-1 + P)^-1 r = (K^-1 + W)^-1 v, where W is the likelihood's curvature at the mode: (n,).

    The mode moves with W. `product` multiplies with (K^-1 + P)^-1, where the precisions P of the sites replace what is
    not positive in W. It follows that r - P (K^-1 + P)^-1 r = v - W (K^-1 + W)^-1 v. The system below is positive
    definite, because K^-1 + W is positive definite at a mode.
    """
    replaced = np.flatnonzero(curvature <= 0.0)
    if not replaced.size:
        return v
    root = np.sqrt(precision[replaced] - curvature[replaced])

    def spread(z: np.ndarray) -> np.ndarray:
        whole = np.zeros_like(v)
        whole[replaced] = root * z
        return whole

    def system(z: np.ndarray) -> np.ndarray:
        return z - root * product(spread(z))[replaced]

    shape = (replaced.size, replaced.size)
    z, _ = cg(LinearOperator(shape, system, dtype=float), root * product(v)[replaced], rtol=MOTION)
    return v + spread(z)
