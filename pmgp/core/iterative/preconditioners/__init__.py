"""Approximations of K + diag(noise) as preconditioners: those of Cutajar et al. (2016), and random pivots.

Each has a file of its own. A :class:`Kernel` gives them products, columns, blocks, and the diagonal of K.

May import: core.iterative.solvers, core.inducing, core.numerics.
"""

from pmgp.core.iterative.preconditioners.base import Kernel, UnknownLogDeterminantError
from pmgp.core.iterative.preconditioners.block_jacobi import BlockDiagonal, block_jacobi, consecutive
from pmgp.core.iterative.preconditioners.fitc import fitc
from pmgp.core.iterative.preconditioners.identity import Identity
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank
from pmgp.core.iterative.preconditioners.nystrom import nystrom
from pmgp.core.iterative.preconditioners.partial_svd import partial_svd
from pmgp.core.iterative.preconditioners.pitc import pitc
from pmgp.core.iterative.preconditioners.pivoted_cholesky import pivoted_cholesky
from pmgp.core.iterative.preconditioners.random_pivots import random_pivots
from pmgp.core.iterative.preconditioners.regularized import Regularized
from pmgp.core.iterative.preconditioners.spectral import spectral
from pmgp.core.iterative.preconditioners.structured_interpolation import StructuredInterpolation

__all__ = [
    "BlockDiagonal",
    "Diagonal",
    "Identity",
    "Kernel",
    "LowRank",
    "Regularized",
    "StructuredInterpolation",
    "UnknownLogDeterminantError",
    "block_jacobi",
    "consecutive",
    "fitc",
    "nystrom",
    "partial_svd",
    "pitc",
    "pivoted_cholesky",
    "random_pivots",
    "spectral",
]
