"""The protocols of Gaussians over the latent values.

The prior of f and the approximations of its posterior offer the same: marginal variances, draws, coordinates in which
they are standard normal, products with the inverse, densities. Nobody else looks at a matrix, so that one with another
structure, of low rank or known by its products alone, takes the place of the dense one. Values do not change: what
alters a Gaussian, such as a jitter, makes a new one.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pmgp.core.likelihoods.base import Likelihood

__all__ = ["Coordinates", "Gaussian"]


class Gaussian(Protocol):
    """N(mean, C)."""

    @property
    def mean(self) -> np.ndarray:
        """Its mean: (n,)."""
        ...

    @property
    def size(self) -> int:
        """Number of latent values n."""
        ...

    @property
    def variance(self) -> np.ndarray:
        """Marginal variances: (n,)."""
        ...

    def sample_deviations(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws of f - mean, of shape (size, n)."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws, of shape (size, n)."""
        ...

    def log_ratio(self, likelihood: Likelihood, f: np.ndarray) -> np.ndarray:
        """Log of p(y|f) N(f|m, K) over this density, up to a constant: (..., n) -> (...)."""
        ...


class Coordinates(Protocol):
    """f = mean + D x, with x standard normal under a Gaussian."""

    @property
    def mean(self) -> np.ndarray:
        """The mean: (n,)."""
        ...

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """D^-1 (f - mean): (n,) -> (n,)."""
        ...

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """D x: (n,) -> (n,)."""
        ...

    def unwhiten(self, x: np.ndarray) -> np.ndarray:
        """mean + D x: (n,) -> (n,)."""
        ...

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """D' g, the gradient in x of what has the gradient g in f: (n,) -> (n,)."""
        ...
