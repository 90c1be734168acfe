"""Theta and f proposed together (Knorr-Held and Rue 2002; section 2.3 of the comparative evaluation).

Theta' comes from a symmetric random walk and f' from an approximation q of p(f|y, theta'). The Hastings ratio is that
of the weights p(y|f) N(f|m, K) / q(f) at both, times the ratio of the priors.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.approximations import Approximation
from pmgp.core.gaussians import SiteApproximation
from pmgp.core.joint_density import DifferentiableModel
from pmgp.core.numerics import linalg
from pmgp.core.theta_updates.densities import JointState, LatentPart, ThetaDensity

__all__ = ["JointDensity"]


class JointDensity(ThetaDensity):
    """p(theta) p(y|f, theta) N(f|m, K) / q(f|theta), with f the chain's at its theta and drawn from q elsewhere.

    A draw is made at every other theta that the density is asked for; it is meant for random walks only.

    Parameters
    ----------
    model : DifferentiableModel
    current : JointState
    rng : numpy.random.Generator
    approximation : Approximation
    """

    def __init__(
        self, model: DifferentiableModel, current: JointState, rng: np.random.Generator, approximation: Approximation
    ) -> None:
        super().__init__(model, current)
        self.rng = rng
        self.approximation = approximation

    def _fit(self, theta: np.ndarray) -> SiteApproximation:
        """Q at theta, a function of theta alone."""
        known = self.current.together.extra
        if self.is_current(theta) and isinstance(known, SiteApproximation):
            return known
        prior = self.prior(theta)
        # First, as a jitter changes K and so q.
        prior.factorize()
        likelihood = self.model.likelihood(theta)
        return self.approximation.refine(self.approximation.fit(prior, likelihood), likelihood)

    def _given(self, theta: np.ndarray) -> tuple[float, LatentPart]:
        fitted = self._fit(theta)
        f = self.current.together.f if self.is_current(theta) else fitted.sample(self.rng, 1)[0]
        log_weight = float(fitted.log_weights(self.model.likelihood(theta), f))
        if not np.isfinite(log_weight):
            raise linalg.NotPositiveDefiniteError("the importance weight is not finite")
        return log_weight, LatentPart(fitted.prior, f, fitted)
