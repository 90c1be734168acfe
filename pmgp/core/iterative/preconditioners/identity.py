"""No preconditioner: P = I."""

from __future__ import annotations

import numpy as np


class Identity:
    """P = I, for conjugate gradients without a preconditioner.

    Parameters
    ----------
    size : int
        Number of rows n.
    """

    iterated = False
    log_determinant = 0.0

    def __init__(self, size: int) -> None:
        self._size = size

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return the columns themselves: (n, k) -> (n, k)."""
        return x

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return standard normal columns: (n, size)."""
        return rng.standard_normal((self._size, size))
