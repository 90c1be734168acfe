"""P = a Cholesky factorization of K that is stopped after m of the largest pivots, + D.

The default of GPyTorch (Gardner et al. 2018): Nystrom's approximation, with the points that those before them determine
least.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.inducing.selection import largest_conditional_variances
from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import LowRank
from pmgp.core.iterative.preconditioners.nystrom import nystrom


def pivoted_cholesky(kernel: Kernel, noise: np.ndarray, rank: int) -> LowRank:
    """Precondition by the largest pivots.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Added to the diagonal of K, positive.
    rank : int
        At most so many pivots.
    """
    points = largest_conditional_variances(
        kernel.diagonal(), lambda point: kernel.columns(np.array([point]))[:, 0], rank
    )
    return nystrom(kernel, noise, points)
