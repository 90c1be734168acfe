"""P = a Cholesky factorization of K that is stopped after the m largest pivots, + D.

This is the default of GPyTorch (Gardner et al. 2018): Nystrom's approximation with points that are chosen one after
another for their largest variance given those before.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.inducing.selection import largest_conditional_variances
from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import LowRank
from pmgp.core.iterative.preconditioners.nystrom import nystrom


def pivoted_cholesky(kernel: Kernel, noise: np.ndarray, rank: int) -> LowRank:
    """Return the preconditioner of the largest pivots.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Positive numbers that are added to the diagonal of K.
    rank : int
        Largest number of pivots.
    """
    points = largest_conditional_variances(
        kernel.diagonal(), lambda point: kernel.columns(np.array([point]))[:, 0], rank
    )
    return nystrom(kernel, noise, points)
