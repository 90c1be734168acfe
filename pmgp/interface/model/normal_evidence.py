"""The evidence of multivariate normal observations, which takes one Cholesky factorization."""

from __future__ import annotations

import numpy as np

from pmgp.core.numerics import linalg
from pmgp.interface.model.latent_prior import LatentPrior
from pmgp.interface.model.observed_normal import ObservedNormal


class NormalEvidence:
    """The function from theta to log N(y|m, C).

    Parameters
    ----------
    name : str
        The name of y.
    parts : ObservedNormal
    """

    def __init__(self, name: str, parts: ObservedNormal) -> None:
        self._y = parts.y
        self._prior = LatentPrior(name, parts.mean, parts.covariance, parts.theta)
        self._prior.refresh_data()

    def value(self, theta: np.ndarray) -> float:
        """Return log p(y|theta); minus infinity if C is indefinite."""
        prior = self._prior(theta).factorized()
        return -np.inf if prior is None else prior.log_density(self._y)

    def with_gradient(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return log p(y|theta) with its gradient; minus infinity if C is indefinite."""
        prior = self._prior(theta).factorized()
        if prior is None:
            return -np.inf, np.zeros_like(theta)
        weighted = prior.solve(self._y - prior.mean)
        # Here (a a' - C^-1) / 2 overwrites the inverse, whose elements above the diagonal are arbitrary.
        with np.errstate(all="ignore"):
            covariance_bar = linalg.add_outer(np.multiply(prior.inverse, -0.5, out=prior.inverse), weighted)
        return prior.log_density(self._y), self._prior.pullback(theta, covariance_bar, weighted)
