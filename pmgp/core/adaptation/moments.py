"""Running moments of the draws of a chain that tunes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pmgp.core.numerics.storable import storable


@storable
@dataclass
class Moments:
    """Running mean and covariance of vectors, with Welford's recurrence."""

    dimension: int
    count: int = 0
    mean: np.ndarray = field(init=False)
    scatter: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        self.mean = np.zeros(self.dimension)
        self.scatter = np.zeros((self.dimension, self.dimension))

    def add(self, theta: np.ndarray) -> None:
        """Take in one vector of shape (dimension,)."""
        self.count += 1
        delta = theta - self.mean
        self.mean = self.mean + delta / self.count
        self.scatter = self.scatter + np.outer(delta, theta - self.mean)

    def covariance(self) -> np.ndarray:
        """Return the covariance, shrunk towards a small multiple of the identity while the draws are few."""
        weight = self.count / (self.count + 2.0 * self.dimension)
        sample = self.scatter / max(self.count - 1, 1)
        return weight * sample + (1.0 - weight) * 0.05 * np.eye(self.dimension)
