"""Protocols of matrices and preconditioners for solvers, and the errors of solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]
"""A symmetric matrix times columns: (n, k) -> (n, k)."""


class NotConvergedError(ArithmeticError):
    """A solver stopped before its tolerance was reached; there is no solution."""


class IndefiniteMatrixError(ArithmeticError):
    """A matrix that must be positive definite is not."""


class Preconditioner(Protocol):
    """A positive definite matrix P that is close to the matrix of a system, and whose own systems are easy to solve."""

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return P^-1 x for columns: (n, k) -> (n, k)."""

    @property
    def log_determinant(self) -> float:
        """The log-determinant of P."""

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, P), the columns of an (n, size) array."""


def columnwise(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return inner products of columns: (n, k), (n, k) -> (k,)."""
    return np.einsum("ij,ij->j", a, b)
