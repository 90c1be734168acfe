"""C = sigma exp(-tau |x - x'|^2) + lambda I as in Filippone and Engler (2015): values and gradients of log p(y|theta).

Gradients are in the logs of sigma, tau and lambda: exact ones from an inverse, and estimates from solvers that stop at
random. The article's formula of the covariance lacks the minus sign.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky

from case_studies.iterative.kernels import Stored
from pmgp.core.iterative.preconditioners import Identity
from pmgp.core.iterative.roulette import Roulette
from pmgp.core.iterative.ulisse import Ulisse

__all__ = ["Isotropic"]


class Isotropic(NamedTuple):
    """Squared distances (n, n) between inputs, and targets y (n,)."""

    squared: np.ndarray
    y: np.ndarray

    def covariance(self, theta: np.ndarray) -> tuple[np.ndarray, float]:
        """Return K and lambda at theta (3,), the logs of sigma, tau and lambda."""
        sigma, tau, noise = np.exp(theta)
        return sigma * np.exp(-tau * self.squared), float(noise)

    def value(self, theta: np.ndarray) -> float:
        """Return log N(y|0, C)."""
        K, noise = self.covariance(theta)
        factor = cholesky(K + noise * np.eye(len(K)), lower=True, overwrite_a=True, check_finite=False)
        quadratic = self.y @ cho_solve((factor, True), self.y, check_finite=False)
        return float(-0.5 * (quadratic + len(K) * np.log(2.0 * np.pi)) - np.log(factor.diagonal()).sum())

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of :meth:`value` from an inverse."""
        K, noise = self.covariance(theta)
        inverse = np.linalg.inv(K + noise * np.eye(len(K)))
        bar = 0.5 * (np.outer(inverse @ self.y, inverse @ self.y) - inverse)
        return np.array([np.sum(bar * K), np.sum(bar * self._by_tau(K, theta)), noise * np.trace(bar)])

    def estimate(self, rng: np.random.Generator, theta: np.ndarray, solver: Roulette, probes: int) -> np.ndarray:
        """Return an estimate of the gradient, with the given number of vectors of signs."""
        K, noise = self.covariance(theta)
        levels = np.full(len(K), noise)
        bar = Ulisse(probes, solver).gradient(rng, Stored(K), levels, self.y, Identity(len(K))).covariance
        terms = [float(np.sum(bar.left * (dK @ bar.right))) for dK in (K, self._by_tau(K, theta))]
        return np.array([*terms, noise * bar.noise.sum()])

    def _by_tau(self, K: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return -np.exp(theta[1]) * self.squared * K
