"""P = W K_UU W' + D, where U is a grid and W maps each input to its nearest point (Wilson and Nickisch 2015).

As in Cutajar et al. (2016, section 3.2.3). Their grid has more points than there are inputs, and K_UU is a Kronecker
product. Here only the points that are nearest to some input have a part in P, and they are few enough for a
factorization, so that systems with P are solved without inner iterations.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csr_array

from pmgp.core.iterative.preconditioners.low_rank import Diagonal, stable_cholesky

__all__ = ["StructuredInterpolation"]


class StructuredInterpolation:
    """Structured kernel interpolation.

    - `nearest` (n, d) of int: the index of the grid's coordinate that is nearest to each input, in each dimension
    - `factors` sequence of (g, g) arrays: the kernel's factor in each dimension, on that dimension's coordinates; one
      of them includes the variance
    - `noise` (n,): positive numbers that are added to the diagonal
    """

    def __init__(self, nearest: np.ndarray, factors: Sequence[np.ndarray], noise: np.ndarray) -> None:
        points, place = np.unique(nearest, axis=0, return_inverse=True)
        pairs = zip(factors, points.T, strict=True)
        self._K = np.prod([factor[np.ix_(index, index)] for factor, index in pairs], axis=0)
        self._W = csr_array((np.ones(len(place)), place, np.arange(len(place) + 1)), shape=(len(place), len(points)))
        self._base, self._noise = Diagonal(noise), noise[:, None]
        # The columns of D^-1/2 W divided by these are orthonormal.
        self._norms = np.sqrt(self._W.T @ (1.0 / self._noise))
        self._inner = cho_factor(np.eye(len(points)) + self._norms * self._K * self._norms.T, lower=True)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return P^-1 x: (n, k) -> (n, k)."""
        along = (self._W.T @ (x / self._noise)) / self._norms
        return (x + self._W @ ((cho_solve(self._inner, along) - along) / self._norms)) / self._noise

    @property
    def log_determinant(self) -> float:
        """log|D| + log|I + W'D^-1 W K_UU|."""
        return self._base.log_determinant + 2.0 * float(np.log(self._inner[0].diagonal()).sum())

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, P): (n, size)."""
        on_grid = stable_cholesky(self._K) @ rng.standard_normal((len(self._K), size))
        return self._W @ on_grid + self._base.sample(rng, size)
