"""Nystrom's preconditioner with points of the largest variance given those before, as in Gardner et al. (2018)."""

from __future__ import annotations

import numpy as np

from pmgp.core.inducing import largest_conditional_variances
from pmgp.core.iterative.preconditioners import Kernel, LowRank, nystrom

__all__ = ["pivoted_cholesky"]


def pivoted_cholesky(kernel: Kernel, noise: np.ndarray, rank: int) -> LowRank:
    """Return the preconditioner of the largest pivots.

    `noise` (n,): positive numbers that are added to the diagonal of K; `rank`: largest number of pivots.
    """
    points = largest_conditional_variances(
        kernel.diagonal(), lambda point: kernel.columns(np.array([point]))[:, 0], rank
    )
    return nystrom(kernel, noise, points)
