"""P = K_XU K_UU^-1 K_UX + D (Williams and Seeger 2001; Cutajar et al. 2016, section 3.1)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import Diagonal, LowRank, factor_of


def nystrom(kernel: Kernel, noise: np.ndarray, points: np.ndarray) -> LowRank:
    """Return the preconditioner of Nystrom's approximation.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Positive numbers that are added to the diagonal of K.
    points : (m,) array of int
        The rows of K that make up U, all different.
    """
    return LowRank(factor_of(kernel.columns(points), points), Diagonal(noise))
