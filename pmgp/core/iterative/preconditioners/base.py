"""The protocol of a covariance K for preconditioners, without the noise on its diagonal."""

from __future__ import annotations

from typing import NoReturn, Protocol

import numpy as np

from pmgp.core.iterative.solvers import ConjugateGradients

INNER = ConjugateGradients(tolerance=1e-4, cap=10_000)
"""The solver inside a preconditioner that iterates; it measures residuals relative to the right-hand side."""


class UnknownLogDeterminantError(ValueError):
    """A preconditioner has no log-determinant and no draws, which would need a factorization of the whole matrix."""


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


def refuse_log_determinant(kind: str) -> NoReturn:
    """Raise an error that names alternatives to a preconditioner without log-determinant and draws."""
    raise UnknownLogDeterminantError(
        f"the log-determinant of a {kind} preconditioner, and draws from N(0, P), would need a factorization of the "
        "whole of P, so it is only for solutions. Use random_pivots, or another preconditioner of low rank"
    )
