"""The parts of a model that the algorithms need: factors of its joint density, and their derivatives in theta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from pmgp.core.gaussians import Prior
from pmgp.core.likelihoods.base import Likelihood


class LatentModel(Protocol):
    """The parts of the joint density as functions of theta on the unconstrained scale, of shape (dimension,)."""

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta), with the log-Jacobian of the transformation."""

    def prior(self, theta: np.ndarray) -> Prior:
        """Return p(f|theta)."""

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta) as a function of f."""


class DifferentiableModel(LatentModel, Protocol):
    """A model with derivatives in theta.

    K is an (n, n) array, or with several latent vectors an array of their covariances, (C, n, n).
    """

    def theta_gradient(
        self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray, f: np.ndarray
    ) -> np.ndarray:
        """Return the gradient in theta, f fixed, of log p(theta) p(y|f, theta) + <covariance_bar, K> + mean_bar' m."""

    def pushforward(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of m and K in each element of theta: (dimension, n) and (dimension, n, n)."""

    def curvature(self, theta: np.ndarray, f: np.ndarray) -> np.ndarray:
        """Return minus the Hessian of log p(theta) + log p(y|f, theta) in theta, f fixed: (dimension, dimension)."""


class DifferentiableMarginal(LatentModel, Protocol):
    """A model with the derivatives in theta from which the gradient of an approximate evidence is made."""

    @property
    def likelihood_elements(self) -> Sequence[int]:
        """The elements of theta that p(y|f, theta) depends on."""

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of log p(theta): (dimension,)."""

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient of <covariance_bar, K(theta)> + mean_bar' m(theta): (dimension,).

        `covariance_bar` is symmetric and given by its lower triangle, or by one for each of several latent vectors.
        """
