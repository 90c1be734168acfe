"""Gaussian processes in the manner of `pymc.gp`: on inducing inputs, in time, on maps, sums over sources, and features.

The target of processes on inducing inputs is a variational optimum, not the posterior: see `Sparse`.
"""

from pmgp.core.markov.meshes import Lattice, Mesh
from pmgp.interface.covariance.kernel_sum import KernelSum, Sources
from pmgp.interface.deep.random_features import RandomFeatures
from pmgp.interface.model.markov_process import Markov
from pmgp.interface.model.matern_field import SPDE
from pmgp.interface.sampling.comparison import compare_with_exact
from pmgp.interface.sparse import OptimizedInducing, Sparse, optimize_inducing, select_inducing

__all__ = [
    "SPDE",
    "KernelSum",
    "Lattice",
    "Markov",
    "Mesh",
    "OptimizedInducing",
    "RandomFeatures",
    "Sources",
    "Sparse",
    "compare_with_exact",
    "optimize_inducing",
    "select_inducing",
]
