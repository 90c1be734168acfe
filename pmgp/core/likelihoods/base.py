"""The protocol every likelihood follows."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pmgp.core.numerics.quadrature import TiltedMoments

__all__ = ["Likelihood"]


class Likelihood(Protocol):
    """p(y|f) = prod_i p(y_i|f_i) with the data inside; leading axes of f are independent draws."""

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Log p(y|f), summed over the n sites: (..., n) -> (...)."""
        ...

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """First derivative of each log p(y_i|f_i): (n,) -> (n,)."""
        ...

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Minus the second derivative of each log p(y_i|f_i): (n,) -> (n,)."""
        ...

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Third derivative of each log p(y_i|f_i): (n,) -> (n,)."""
        ...

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments | None:
        """Mean, variance and log normalizer of p(y_i|f_i) N(f_i|mean, variance): (n,) arrays; None if not known.

        `near` holds means and variances close to the answer, for likelihoods that need quadrature.
        """
        ...

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Expected curvature under p(y_i|f_i), never negative: (n,) -> (n,)."""
        ...
