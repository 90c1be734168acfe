"""Protocols of matrices and preconditioners for solvers, and the errors of solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]
"""A symmetric matrix times columns: (n, k) -> (n, k)."""


class NotConvergedError(ArithmeticError):
    """A solver stopped before its tolerance was reached; there is no solution.

    Examples
    --------
    >>> import numpy as np, pmgp, pymc as pm
    >>> X = np.linspace(0.0, 1.0, 60)[:, None]
    >>> with pm.Model() as model:
    ...     gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.Gamma("lengthscale", 2, 4)))
    ...     y = gp.marginal_likelihood("y", X, np.sin(9.0 * X[:, 0]), sigma=1e-3)
    >>> try:
    ...     found = pmgp.marginal.iterative_log_likelihood(model, {"lengthscale": 0.1}, rank=1, cap=2)
    ... except pmgp.NotConvergedError as error:
    ...     print("stopped:", error)
    stopped: ...
    """


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
