"""Preconditioners that are compared with the package's: others of Cutajar et al. (2016), and the largest pivots."""

from case_studies.iterative.preconditioners.block_jacobi import BlockDiagonal, block_jacobi, consecutive
from case_studies.iterative.preconditioners.partial_svd import partial_svd
from case_studies.iterative.preconditioners.pivoted_cholesky import pivoted_cholesky
from case_studies.iterative.preconditioners.regularized import Regularized, UnknownLogDeterminantError
from case_studies.iterative.preconditioners.spectral import spectral
from case_studies.iterative.preconditioners.structured_interpolation import StructuredInterpolation
from case_studies.iterative.preconditioners.training_conditionals import fitc, pitc

__all__ = [
    "BlockDiagonal",
    "Regularized",
    "StructuredInterpolation",
    "UnknownLogDeterminantError",
    "block_jacobi",
    "consecutive",
    "fitc",
    "partial_svd",
    "pitc",
    "pivoted_cholesky",
    "spectral",
]
