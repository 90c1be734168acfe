"""Gradients of the approximations' log-evidence for several latent vectors, in the K_c, in m and in the likelihood.

This follows `gradients.py`. Let R = (K + W^-1)^-1, of which only the C diagonal blocks of n rows are needed, and
alpha = K^-1 (mu - m) = b - W mu. The evidence at fixed sites has the gradients (alpha_c alpha_c' - R_cc) / 2 in K_c,
and alpha in m. Expectation propagation's evidence is stationary in sites that match all moments. The sites of a softmax
match the means, and for three classes also the covariances. With more classes their precisions are expected curvatures,
and the gradient has an error of a few percent; trajectories are exact with any force that is a function of the
position. Laplace's sites move with the mode. Where the likelihood is not log-concave, sites are replaced by positive
definite ones, and both gradients are rough.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pmgp.core.approximations.block_matching import BlockCavities, block_cavities
from pmgp.core.approximations.gradients import EvidenceGradient
from pmgp.core.gaussians import BlockApproximation
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.blocks import BlockLikelihood, curvature_gradient


def matched_block_gradient(q: BlockApproximation, likelihood: BlockLikelihood) -> EvidenceGradient:
    """Return the gradient of expectation propagation's log-evidence at a fixed point.

    The part for the likelihood is NaN if the marginals of q are wider than those of the prior.
    """

    # Computed only if needed: marginals take as long as a conditioning, and few likelihoods have parameters.
    @cache
    def known() -> BlockCavities | None:
        return block_cavities(q, likelihood.contrasts)

    def along(other: Any) -> float:
        cavity = known()
        if cavity is None:
            return np.nan
        near = (cavity.marginal_mean, cavity.marginal_covariance)
        tilted = other.tilted_moments(cavity.mean, cavity.covariance, near)
        return np.nan if tilted is None else float(tilted.log_normalizer.sum())

    alpha = q.residual
    return EvidenceGradient(q.covariance_bar(alpha)[0], q.prior.from_sites(alpha), along)


def laplace_block_gradient(q: BlockApproximation, likelihood: BlockLikelihood) -> EvidenceGradient:
    """Return the gradient of Laplace's log-evidence at the mode."""
    mode, alpha = q.mean, q.residual
    bar, marginals = q.covariance_bar(alpha)
    # Derivative of -log|I + K W|/2 in the mode, then in the gradient of the likelihood, which moves the mode.
    by_mode = -0.5 * curvature_gradient(likelihood, mode, marginals)
    by_gradient = q.moved_at_sites(by_mode)
    by_shift = by_mode - q.precision.product(by_gradient)

    def along(other: Likelihood) -> float:
        slope, curvature = other.derivatives(mode)
        explicit = float(other.log_likelihood(mode)) - 0.5 * float(np.sum(marginals * curvature.blocks))
        return explicit + float(by_gradient @ slope)

    return EvidenceGradient(q.shifted_bar(bar, by_shift, alpha), q.prior.from_sites(alpha + by_shift), along)
