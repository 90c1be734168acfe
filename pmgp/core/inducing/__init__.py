"""Inducing inputs, and what is computed on them; NumPy and SciPy only.

May import: core.numerics.
"""

from pmgp.core.inducing.selection import cluster_centers, largest_conditional_variances

__all__ = ["cluster_centers", "largest_conditional_variances"]
