"""P = Q + D with Nystrom's approximation Q = K_XU K_UU^-1 K_UX with points U (Williams and Seeger 2001)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank, factor_of


def nystrom(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Return the preconditioner of Nystrom's approximation.

    `noise` (n,): positive numbers that are added to the diagonal of K; `points` (m,) of int: the rows of K that make up
    U, all different.
    """
    return LowRank(factor_of(kernel.columns(points), points), Diagonal(noise))
