"""The protocol of a covariance K for preconditioners, without the noise on its diagonal."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from pmgp.core.iterative.solvers import ConjugateGradients

INNER = ConjugateGradients(tolerance=1e-4, cap=10_000)
"""The solver inside of a preconditioner that iterates; it measures residuals relative to the right-hand side."""


class UnknownLogDeterminantError(ValueError):
    """A preconditioner was asked for what would take a factorization of the whole matrix."""


class Kernel(Protocol):
    """A covariance matrix K whose parts are computed when they are asked for.

    Attributes
    ----------
    size : int
        Number of rows n.
    """

    size: int

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns: (n, k) -> (n, k)."""
        ...

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Columns of K: (m,) indices -> (n, m)."""
        ...

    def block(self, where: slice) -> np.ndarray:
        """A square block on the diagonal, from a slice with a start and a stop."""
        ...

    def diagonal(self) -> np.ndarray:
        """The diagonal of K: (n,)."""
        ...


class Base(Protocol):
    """A matrix D that is easily inverted, to which a product of low rank is added."""

    def solve(self, x: np.ndarray) -> np.ndarray:
        """D^-1 x for columns: (n, k) -> (n, k)."""
        ...

    @property
    def log_determinant(self) -> float:
        """Log-determinant of D."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws from N(0, D), the columns of an (n, size) array."""
        ...

    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of D^-1: (n,)."""
        ...


def refuse_log_determinant(kind: str) -> NoReturn:
    """Raise an error: this preconditioner has neither a log-determinant nor draws; the message names alternatives."""
    raise UnknownLogDeterminantError(
        f"the log-determinant of a {kind} preconditioner, and draws from N(0, P), would take a factorization of all of "
        "P: it serves for solutions only. Use random_pivots, or another one of low rank"
    )
