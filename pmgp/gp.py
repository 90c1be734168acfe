"""Gaussian processes in the manner of `pymc.gp`: on inducing inputs, for many points; sums over sources of features.

What is on inducing inputs has a variational optimum for its target, and not the posterior: see `Sparse`.
"""

from pmgp.interface.covariance.kernel_sum import KernelSum, Sources
from pmgp.interface.sparse import OptimizedInducing, Sparse, compare_with_exact, optimize_inducing, select_inducing

__all__ = [
    "KernelSum",
    "OptimizedInducing",
    "Sources",
    "Sparse",
    "compare_with_exact",
    "optimize_inducing",
    "select_inducing",
]
