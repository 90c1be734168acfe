"""A model for the pseudo-marginal chain with K on a device of JAX; its other parts are those of NumPy's model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from pmgp.core.dense_jax.gaussians import JaxPrior
from pmgp.core.likelihoods import Likelihood
from pmgp.interface.dense_jax.covariance import JaxCovariance
from pmgp.interface.dense_jax.devices import PLENTY, memory_of
from pmgp.interface.model.latent_gaussian import LatentGaussianModel

# Matrices that a chain holds at once: K, its factor and that of B at the chain's theta, K and the factor of B at two
# more points of a trajectory. In addition, K or the gradient in K is being computed, which takes this many.
HELD, GRADIENT = 7, 3


class JaxModel:
    """The joint density of a model as the core takes it, a `core.joint_density.DifferentiableMarginal`.

    `parts`: the model taken apart; `covariance`: its p(f|theta).
    """

    def __init__(self, parts: LatentGaussianModel, covariance: JaxCovariance) -> None:
        self.parts, self.covariance = parts, covariance

    @classmethod
    def within(cls, parts: LatentGaussianModel, device: str | None, memory: float | None) -> Self:
        """Return a model whose matrices fit into the memory of a device, or into the given bytes of it."""
        prior, theta = parts.latent_prior, parts.initial_theta
        covariance = JaxCovariance(prior.mean, prior.covariance, parts.theta, device)
        has = memory_of(covariance.device) if memory is None else memory
        one = 8 * len(parts.initial_moments[0]) ** 2
        if PLENTY * one > has:
            needed = HELD * one + max(GRADIENT * one, covariance.temporary(theta))
            if needed > has:
                raise MemoryError(
                    f"a chain with {len(parts.initial_moments[0])} latent values holds up to {needed / one:.0f} "
                    f"matrices of {one / 1e9:.3g} GB at once, and {has / 1e9:.3g} GB are allowed: use a device with "
                    "more memory, or inducing inputs (pmgp.gp.Sparse)"
                )
        return cls(parts, covariance)

    def compile_theta_gradient(self) -> None:
        """Find out here whether the gradient in theta exists, so that workers need not."""
        self.parts.log_prior_gradient(self.parts.initial_theta)
        self.covariance.trace_pullback(self.parts.initial_theta)

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta) on the unconstrained scale."""
        return self.parts.log_prior(theta)

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of log p(theta)."""
        return self.parts.log_prior_gradient(theta)

    def prior(self, theta: np.ndarray) -> JaxPrior:
        """Return p(f|theta)."""
        return self.covariance(theta)

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta)."""
        return self.parts.likelihood(theta)

    @property
    def likelihood_elements(self) -> Sequence[int]:
        """The elements of theta that p(y|f, theta) depends on."""
        return self.parts.likelihood_elements

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: Any, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of <covariance_bar, K> + mean_bar' m."""
        return self.covariance.pullback(theta, covariance_bar, mean_bar)
