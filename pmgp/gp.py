"""Gaussian processes on inducing inputs, for many points, in the manner of `pymc.gp`.

Everything here has a variational optimum for its target, and not the posterior: see `Sparse`.
"""

from pmgp.interface.sparse import Sparse, compare_with_exact, select_inducing

__all__ = ["Sparse", "compare_with_exact", "select_inducing"]
