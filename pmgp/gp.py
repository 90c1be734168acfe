"""Gaussian processes on inducing inputs, for many points, in the manner of `pymc.gp`.

Everything here has a variational optimum for its target, and not the posterior: see `Sparse`.
"""

from pmgp.interface.sparse import Sparse, select_inducing

__all__ = ["Sparse", "select_inducing"]
