"""Linear systems and log-determinants of a positive definite matrix that is known by its products only.

A solver takes the product of the matrix with columns and any `Preconditioner`; what it returns has a residual that was
computed anew, and where it does not converge there is an error and no value.

May import: core.numerics.
"""

from pmgp.core.iterative.solvers.base import (
    IndefiniteMatrixError,
    NotConvergedError,
    Preconditioner,
    Product,
    columnwise,
)
from pmgp.core.iterative.solvers.conjugate_gradients import ConjugateGradients, Solution
from pmgp.core.iterative.solvers.flexible import FlexibleConjugateGradients
from pmgp.core.iterative.solvers.lanczos import Estimated, log_determinant

__all__ = [
    "ConjugateGradients",
    "Estimated",
    "FlexibleConjugateGradients",
    "IndefiniteMatrixError",
    "NotConvergedError",
    "Preconditioner",
    "Product",
    "Solution",
    "columnwise",
    "log_determinant",
]
