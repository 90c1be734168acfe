"""P = Q + blocks of K - Q + D, with Nystrom's Q: blocks independent given U (Cutajar et al. 2016, section 3.1.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.block_jacobi import BlockDiagonal, consecutive
from pmgp.core.iterative.preconditioners.low_rank import LowRank, factor_of


def pitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray, width: int) -> LowRank:
    """Return the preconditioner of the partially independent training conditional.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Positive numbers that are added to the diagonal of K.
    points : (m,) array of int
        The rows of K that make up U, all different.
    width : int
        Number of rows of a block; the article uses sqrt(n).
    """
    factor = factor_of(kernel.columns(points), points)
    slices = consecutive(kernel.size, width)
    blocks = [kernel.block(rows) - factor[rows] @ factor[rows].T + np.diag(noise[rows]) for rows in slices]
    return LowRank(factor, BlockDiagonal(slices, blocks))
