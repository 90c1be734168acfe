"""A variance with an inverse-gamma prior, drawn from its full conditional given f (appendix A.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmgp.core.theta_updates.densities import JointState, LatentPart, factorized


@dataclass(frozen=True)
class ConjugateVariance:
    """sigma ~ InverseGamma(shape, scale) where K = sigma Q and nothing else depends on sigma.

    Given f it is inverse gamma with shape + n / 2 and scale + (f - m)' Q^-1 (f - m) / 2.

    `index`: index of log sigma in theta.
    """

    index: int
    shape: float
    scale: float

    def draw(self, rng: np.random.Generator, current: JointState) -> JointState:
        """Return the state with an exact draw of sigma; K and its factor are scaled, not computed again."""
        f = current.latent.f
        prior = factorized(current.latent.prior)
        nu = prior.whiten(f)
        log_sigma = current.theta[self.index]
        scale = self.scale + 0.5 * np.exp(log_sigma) * float(nu @ nu)
        drawn = np.log(scale) - np.log(rng.gamma(self.shape + 0.5 * f.size))
        theta = current.theta.copy()
        theta[self.index] = drawn
        return JointState(theta, LatentPart(prior.scaled(float(np.exp(drawn - log_sigma))), f))
