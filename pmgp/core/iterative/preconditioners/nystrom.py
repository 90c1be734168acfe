"""Preconditioners from Nystrom's approximation Q = K_XU K_UU^-1 K_UX with points U (Cutajar et al. 2016, section 3.1).

P = Q + D is Nystrom's (Williams and Seeger 2001), also with points that are chosen one after another for their largest
variance given those before, as in GPyTorch (Gardner et al. 2018). P = Q + diag(K - Q) + D makes the values independent
given U, and P = Q + blocks of K - Q + D the blocks (section 3.1.1).
"""

from __future__ import annotations

import numpy as np

from pmgp.core.inducing.selection import largest_conditional_variances
from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.block_jacobi import BlockDiagonal, consecutive
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank, factor_of


def nystrom(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Return the preconditioner of Nystrom's approximation.

    `noise` (n,): positive numbers that are added to the diagonal of K; `points` (m,) of int: the rows of K that make up
    U, all different.
    """
    return LowRank(factor_of(kernel.columns(points), points), Diagonal(noise))


def pivoted_cholesky(kernel: Kernel, noise: np.ndarray, rank: int) -> LowRank:
    """Return the preconditioner of the largest pivots.

    `kernel`, `noise`: see :func:`nystrom`; `rank`: largest number of pivots.
    """
    points = largest_conditional_variances(
        kernel.diagonal(), lambda point: kernel.columns(np.array([point]))[:, 0], rank
    )
    return nystrom(kernel, noise, points)


def fitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Return the preconditioner of the fully independent training conditional.

    The parameters are those of :func:`nystrom`.
    """
    factor = factor_of(kernel.columns(points), points)
    left = np.maximum(kernel.diagonal() - np.square(factor).sum(axis=1), 0.0)
    return LowRank(factor, Diagonal(noise + left))


def pitc(kernel: Kernel, noise: np.ndarray, points: np.ndarray, width: int) -> LowRank:
    """Return the preconditioner of the partially independent training conditional.

    - `kernel`, `noise`, `points`: see :func:`nystrom`
    - `width`: number of rows of a block, or a few more; the article uses sqrt(n)
    """
    factor = factor_of(kernel.columns(points), points)
    slices = consecutive(kernel.size, width)
    blocks = [kernel.block(rows) - factor[rows] @ factor[rows].T + np.diag(noise[rows]) for rows in slices]
    return LowRank(factor, BlockDiagonal(slices, blocks))
