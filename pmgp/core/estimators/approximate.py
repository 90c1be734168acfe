"""The approximation's own marginal likelihood in place of an estimate: the articles compare exact samplers with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pmgp.core.estimators.importance import WeightedParticles
from pmgp.core.gaussians import Posterior
from pmgp.core.likelihoods.base import Likelihood


@dataclass(frozen=True)
class ApproximateEvidence:
    """The evidence of Laplace's method or of expectation propagation in place of p(y|theta): **not exact**.

    Theta is sampled from p(theta) times that evidence, and f is drawn from q, as in section 5.2 of the pseudo-marginal
    article ("MCMC EP"). The error is that of the approximation and does not vanish in longer chains.
    """

    def estimate(
        self, rng: np.random.Generator, approximation: Posterior, likelihood: Likelihood, draws: int | None = None
    ) -> WeightedParticles:
        """Return the approximation's log-evidence, with one draw from q as the particle."""
        return WeightedParticles(approximation.log_evidence, approximation.sample(rng, 1), np.zeros(1))

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: Posterior,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> WeightedParticles:
        """Return the same with a new draw from q; nothing is kept."""
        return self.estimate(rng, approximation, likelihood)

    @staticmethod
    def redrawn(draws: int) -> int:
        """Return one, for the draw of f."""
        return 1

    @staticmethod
    def estimate_from(
        approximation: Posterior, likelihood: Likelihood, retained: np.ndarray, deviations: np.ndarray
    ) -> WeightedParticles:
        """Return the same with a draw from q that was made before."""
        return WeightedParticles(approximation.log_evidence, approximation.mean + deviations, np.zeros(1))
