"""No estimate at all: the approximation's own marginal likelihood, what the articles compare exact samplers with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from pmgp.core.estimators.importance import Estimate
from pmgp.core.gaussians.sites import SiteApproximation
from pmgp.core.likelihoods.base import Likelihood

__all__ = ["ApproximateEvidence"]


@dataclass(frozen=True)
class ApproximateEvidence:
    """The evidence of Laplace's method or of expectation propagation in place of p(y|theta): **not exact**.

    Theta is sampled from p(theta) times that evidence, and f is drawn from q: section 5.2 of the pseudo-marginal
    article ("MCMC EP"). The error is that of the approximation and does not vanish in longer chains.
    """

    draws: ClassVar[int] = 1
    exact: ClassVar[bool] = False
    antithetic: ClassVar[bool] = False
    calibration_pool: ClassVar[int] = 0
    refresh_every: ClassVar[int] = 1

    def estimate(
        self,
        rng: np.random.Generator,
        approximation: SiteApproximation,
        likelihood: Likelihood,
        draws: int | None = None,
    ) -> Estimate:
        """The approximation's log-evidence, with one draw from q for a particle."""
        return Estimate(approximation.log_evidence, approximation.sample(rng, 1), np.zeros(1))

    @staticmethod
    def redrawn(draws: int) -> int:
        """Nothing that is worth drawing ahead."""
        return 0

    def estimate_given(
        self,
        rng: np.random.Generator,
        approximation: SiteApproximation,
        likelihood: Likelihood,
        retained: np.ndarray,
        draws: int | None = None,
    ) -> Estimate:
        """Another draw from q; nothing is kept."""
        return self.estimate(rng, approximation, likelihood)
