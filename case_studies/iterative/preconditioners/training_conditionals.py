"""FITC and PITC, with Nystrom's approximation Q = K_XU K_UU^-1 K_UX (Cutajar et al. 2016, section 3.1.1).

P = Q + diag(K - Q) + D makes the values independent given U, and P = Q + blocks of K - Q + D the blocks.
"""

from __future__ import annotations

import numpy as np

from case_studies.iterative.preconditioners.block_jacobi import BlockDiagonal, consecutive
from pmgp.core.iterative.preconditioners import Diagonal, Kernel, LowRank
from pmgp.core.iterative.preconditioners.low_rank import factor_of

__all__ = ["fitc", "pitc"]


def fitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Return the preconditioner of the fully independent training conditional.

    `noise` (n,): positive numbers that are added to the diagonal of K; `points` (m,) of int: the rows of K that make up
    U, all different.
    """
    factor = factor_of(kernel.columns(points), points)
    left = np.maximum(kernel.diagonal() - np.square(factor).sum(axis=1), 0.0)
    return LowRank(factor, Diagonal(noise + left))


def pitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray, width: int) -> LowRank:
    """Return the preconditioner of the partially independent training conditional.

    - `kernel`, `noise`, `points`: see :func:`fitc`
    - `width`: number of rows of a block, or a few more; the article uses sqrt(n)
    """
    factor = factor_of(kernel.columns(points), points)
    slices = consecutive(kernel.size, width)
    blocks = [kernel.block(rows) - factor[rows] @ factor[rows].T + np.diag(noise[rows]) for rows in slices]
    return LowRank(factor, BlockDiagonal(slices, blocks))
