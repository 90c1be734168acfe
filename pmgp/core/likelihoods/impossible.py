"""A likelihood that is zero everywhere, for a proposed theta whose parameters are outside their domain."""

from __future__ import annotations

import numpy as np


class Impossible:
    """p(y|f) = 0 for every f, so a theta with this likelihood is rejected.

    `reason`: description of what is wrong with the parameters.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return minus infinity: (..., n) -> (...)."""
        return np.full(f.shape[:-1], -np.inf)

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return zero, for want of a better direction: (n,) -> (n,)."""
        return np.zeros_like(f, dtype=float)

    # Callers that need derivatives must not meet NaN before they check log p(y|f).
    curvature = fisher_information = third_derivative = gradient

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return zeros for both."""
        return self.gradient(f), self.curvature(f)

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> None:
        """None: there is nothing to normalize."""
