"""P = Q + diag(K - Q) + D, Q of Nystrom: independent given the points U (Cutajar et al. 2016, section 3.1.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank, factor_of


def fitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Precondition by the fully independent training conditional.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Added to the diagonal of K, positive.
    points : (m,) array of int
        Rows of K that U consists of, all different.
    """
    factor = factor_of(kernel.columns(points), points)
    left = np.maximum(kernel.diagonal() - np.square(factor).sum(axis=1), 0.0)
    return LowRank(factor, Diagonal(noise + left))
