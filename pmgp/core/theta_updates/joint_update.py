"""Theta and f proposed together (Knorr-Held and Rue 2002; section 2.3 of the comparative evaluation).

Theta' comes from a symmetric random walk and f' from an approximation q of p(f|y, theta'). The Hastings ratio is the
ratio of the weights p(y|f) N(f|m, K) / q(f), times the ratio of the priors.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.approximations import Approximation
from pmgp.core.gaussians import Posterior
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.theta_updates.densities import JointState, LatentPart, ThetaDensity


class JointDensity(ThetaDensity):
    """p(theta) p(y|f, theta) N(f|m, K) / q(f|theta), with the chain's f at its theta and a draw from q elsewhere.

    The draws at all other theta use the same normals: the density is meant for random walks, which evaluate only one.

    `normals` (2, 1, n): standard normals from which draws from q are made.
    """

    def __init__(
        self, model: DifferentiableModel, current: JointState, approximation: Approximation, normals: np.ndarray
    ) -> None:
        super().__init__(model, current)
        self.approximation = approximation
        self.normals = normals

    def _fit(self, theta: np.ndarray) -> Posterior | None:
        """Return q at theta, a function of theta alone, or None if K is indefinite."""
        known = self.current.latent.extra
        if self.is_current(theta) and isinstance(known, Posterior):
            return known
        # Factorize first, because a jitter changes K and so q.
        prior = self.prior(theta)
        likelihood = self.model.likelihood(theta)
        fitted = None if prior is None else self.approximation.fit(prior, likelihood)
        return None if fitted is None or not fitted.resolved else self.approximation.refine(fitted, likelihood)

    def _latent(self, theta: np.ndarray) -> LatentPart | None:
        fitted = self._fit(theta)
        if fitted is None:
            return None
        current = self.is_current(theta)
        f = self.current.latent.f if current else fitted.mean + fitted.deviations_from(self.normals)[0]
        return LatentPart(fitted.prior, f, fitted)

    def _log_density(self, theta: np.ndarray, latent: LatentPart) -> float:
        log_weight = float(latent.extra.log_weights(self.model.likelihood(theta), latent.f))
        return log_weight if np.isfinite(log_weight) else -np.inf
