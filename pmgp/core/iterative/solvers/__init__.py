"""Linear systems and log-determinants of a positive definite matrix of which only products are known.

A solver takes the product of the matrix with columns and any `Preconditioner`. It checks the solution with a recomputed
residual, and raises an error if it does not converge.

May import: core.numerics.
"""

from pmgp.core.iterative.solvers.base import (
    IndefiniteMatrixError,
    NotConvergedError,
    Preconditioner,
    Product,
    columnwise,
)
from pmgp.core.iterative.solvers.conjugate_gradients import ConjugateGradients, Solution, refuse_indefinite
from pmgp.core.iterative.solvers.lanczos import Estimated, log_determinant
from pmgp.core.iterative.solvers.watching import Residual, tell, watched

__all__ = [
    "ConjugateGradients",
    "Estimated",
    "IndefiniteMatrixError",
    "NotConvergedError",
    "Preconditioner",
    "Product",
    "Residual",
    "Solution",
    "columnwise",
    "log_determinant",
    "refuse_indefinite",
    "tell",
    "watched",
]
