"""The protocol every approximation follows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pmgp.core.approximations.gradients import EvidenceGradient
from pmgp.core.gaussians import Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood


class Approximation(Protocol):
    """Finds q(f), a Gaussian close to p(f|y, theta), as a function of theta alone."""

    def fit(self, prior: Prior, likelihood: Likelihood, start: np.ndarray | None = None) -> Posterior | None:
        """Return q with its own log-evidence, from a start made by :meth:`start_from`; None where K is indefinite."""

    def refine(self, approximation: Posterior, likelihood: Likelihood) -> Posterior | None:
        """Improve q before importance samples are drawn from it; the log-evidence stays. None as for :meth:`fit`."""

    def start_from(self, approximation: Posterior) -> np.ndarray:
        """Return the best start for a fit at a nearby theta, as a vector that is smooth in theta."""


class Differentiable(Approximation, Protocol):
    """An approximation whose log-evidence has a gradient.

    Its maximum can be found, and gradient moves can use it.
    """

    def evidence_gradient(self, approximation: Posterior, likelihood: Likelihood) -> EvidenceGradient | None:
        """Return the gradient of the log-evidence, as exact as the fit is; None where K is indefinite."""
