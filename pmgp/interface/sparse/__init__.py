"""Gaussian processes on inducing inputs: the variational optimum of a free-form q(u, theta), as a PyMC model.

May import: core, interface.covariance, interface.graphs, interface.distributions, interface.model,
interface.steps.
"""

from pmgp.interface.sparse.gibbs import SparseGibbs
from pmgp.interface.sparse.hmc import SparseHMC
from pmgp.interface.sparse.optimized import OptimizedInducing, optimize_inducing
from pmgp.interface.sparse.process import Sparse
from pmgp.interface.sparse.selection import select_inducing, suggested_number

__all__ = [
    "OptimizedInducing",
    "Sparse",
    "SparseGibbs",
    "SparseHMC",
    "optimize_inducing",
    "select_inducing",
    "suggested_number",
]
