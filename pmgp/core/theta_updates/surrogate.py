"""Theta given surrogate data (Murray and Adams 2010; section 2.4 of the comparative evaluation).

Surrogate data g ~ N(f, S) are drawn; then theta moves with g and eta fixed, where f = m_g + D eta with m_g and
D D' the moments of f given g. S is diagonal, and chosen so that g_i informs about f_i as much as its observation does.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.gaussians import Observed, Prior
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg
from pmgp.core.theta_updates.densities import JointState, LatentPart, ThetaDensity

# Bounds of S relative to the prior variance: for observations with full and with no information.
BOUNDS = (1e-4, 1e4)


def surrogate_noise(prior: Prior, likelihood: Likelihood) -> np.ndarray:
    """Return the diagonal of S, which matches each latent value's own posterior.

    p(f_i|y_i, theta) under N(m_i, K_ii) has a variance v_i, and S_i solves 1/v_i = 1/K_ii + 1/S_i. If the moments are
    not known, Taylor's expansion at the prior mean gives S_i = 1 / curvature. S is a function of theta alone.
    """
    variance = prior.variance.copy()
    # With several latent vectors the moments would be the joint ones of all values of an observation.
    moments = None if prior.in_blocks else likelihood.tilted_moments(prior.mean, variance)
    if moments is None:
        precision = likelihood.fisher_information(prior.mean)
    else:
        precision = 1.0 / np.maximum(moments[1], 1e-12 * variance) - 1.0 / variance
    smallest, largest = BOUNDS
    return variance / np.clip(precision * variance, 1.0 / largest, 1.0 / smallest)


class SurrogateDensity(ThetaDensity):
    """p(theta|eta, g, y) = p(theta) N(g|m, K + S) p(y|f, theta), where f moves with theta.

    `normals` (n,): standard normals from which the surrogate data are made, new ones in every iteration.
    """

    def __init__(self, model: DifferentiableModel, current: JointState, normals: np.ndarray) -> None:
        super().__init__(model, current)
        f = current.latent.f
        frame = self._frame(current.theta)
        if frame is None:
            raise linalg.NotPositiveDefiniteError("the covariance is indefinite at the chain's current theta")
        self.surrogate = f + normals / np.sqrt(frame.precision)
        self.eta = frame.whitened(f - frame.mean_given(self.surrogate))

    def _frame(self, theta: np.ndarray) -> Observed | None:
        """Return the distribution of f given surrogate data at one theta, or None if K is indefinite."""
        known = self.current.latent.extra
        if self.is_current(theta) and isinstance(known, Observed):
            return known
        # K itself is not factorized here.
        prior = self.current.latent.prior if self.is_current(theta) else self.model.prior(theta)
        return prior.observed(1.0 / surrogate_noise(prior, self.model.likelihood(theta)))

    def _latent(self, theta: np.ndarray) -> LatentPart | None:
        frame = self._frame(theta)
        if frame is None:
            return None
        f = self.current.latent.f
        if not self.is_current(theta):
            f = frame.mean_given(self.surrogate) + frame.deviation(self.eta)
        return LatentPart(frame.prior, f, frame)

    def _log_density(self, theta: np.ndarray, latent: LatentPart) -> float:
        log_likelihood = float(self.model.likelihood(theta).log_likelihood(latent.f))
        return latent.extra.log_density_of(self.surrogate) + log_likelihood
