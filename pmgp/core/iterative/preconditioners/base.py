"""The protocol of a covariance K for preconditioners, without the noise on its diagonal."""

from __future__ import annotations

from typing import Protocol

import numpy as np


class Kernel(Protocol):
    """A covariance matrix K whose parts are computed when they are needed.

    Attributes
    ----------
    size : int
        Number of rows n.
    """

    size: int

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Return K times columns: (n, k) -> (n, k)."""

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K: (m,) indices -> (n, m)."""

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K: (n,)."""


class Base(Protocol):
    """A matrix D that is easily inverted, to which a product of low rank is added."""

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return D^-1 x for columns: (n, k) -> (n, k)."""

    @property
    def log_determinant(self) -> float:
        """The log-determinant of D."""

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, D), the columns of an (n, size) array."""

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of D^-1: (n,)."""
