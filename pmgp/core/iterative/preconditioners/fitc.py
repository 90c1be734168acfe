"""P = Q + diag(K - Q) + D, with Nystrom's Q: independent given the points U (Cutajar et al. 2016, section 3.1.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank, factor_of


def fitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Return the preconditioner of the fully independent training conditional.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Positive numbers that are added to the diagonal of K.
    points : (m,) array of int
        The rows of K that make up U, all different.
    """
    factor = factor_of(kernel.columns(points), points)
    left = np.maximum(kernel.diagonal() - np.square(factor).sum(axis=1), 0.0)
    return LowRank(factor, Diagonal(noise + left))
