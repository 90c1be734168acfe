"""Gaussian processes in the manner of `pymc.gp`: on inducing inputs, on random features, in time, sums over sources.

What is on inducing inputs has a variational optimum for its target, and not the posterior: see `Sparse`.
"""

from pmgp.interface.covariance.kernel_sum import KernelSum, Sources
from pmgp.interface.deep.random_features import RandomFeatures
from pmgp.interface.model.markov_process import Markov
from pmgp.interface.sparse import OptimizedInducing, Sparse, compare_with_exact, optimize_inducing, select_inducing

__all__ = [
    "KernelSum",
    "Markov",
    "OptimizedInducing",
    "RandomFeatures",
    "Sources",
    "Sparse",
    "compare_with_exact",
    "optimize_inducing",
    "select_inducing",
]
