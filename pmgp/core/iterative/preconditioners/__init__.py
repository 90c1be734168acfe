"""Approximations of K + diag(noise) as preconditioners: those of Cutajar et al. (2016), and random pivots.

A :class:`Kernel` gives them products, columns, blocks, and the diagonal of K.

May import: core.iterative.solvers, core.inducing, core.numerics.
"""

from pmgp.core.iterative.preconditioners.base import Kernel, UnknownLogDeterminantError
from pmgp.core.iterative.preconditioners.block_jacobi import BlockDiagonal, block_jacobi, consecutive
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, Identity, LowRank, spectral
from pmgp.core.iterative.preconditioners.nystrom import fitc, nystrom, pitc, pivoted_cholesky
from pmgp.core.iterative.preconditioners.partial_svd import partial_svd
from pmgp.core.iterative.preconditioners.random_pivots import random_pivots
from pmgp.core.iterative.preconditioners.regularized import Regularized
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
