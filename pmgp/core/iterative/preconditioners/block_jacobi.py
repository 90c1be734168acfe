"""P = the blocks of K + D on the diagonal (Cutajar et al. 2016, section 3.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pmgp.core.iterative.preconditioners.base import Kernel


class BlockDiagonal:
    """A block-diagonal matrix, factorized.

    Parameters
    ----------
    places : sequence of slice
        Rows of the blocks, which follow each other and are all rows.
    blocks : sequence of array
        Each positive definite.
    """

    iterated = False

    def __init__(self, places: Sequence[slice], blocks: Sequence[np.ndarray]) -> None:
        self._places = places
        self._factors = [cho_factor(block, lower=True) for block in blocks]

    @property
    def log_determinant(self) -> float:
        """Sum of the blocks'."""
        return 2.0 * float(sum(np.log(lower.diagonal()).sum() for lower, _ in self._factors))

    def solve(self, x: np.ndarray) -> np.ndarray:
        """P^-1 x, block by block: (n, k) -> (n, k)."""
        return self._apart(x, lambda factor, rows: cho_solve(factor, rows))

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws from N(0, P): (n, size)."""
        normals = rng.standard_normal((self._places[-1].stop, size))
        return self._apart(normals, lambda factor, rows: np.tril(factor[0]) @ rows)

    def inverse_diagonal(self) -> np.ndarray:
        """Diagonal of P^-1: (n,)."""
        return np.concatenate([cho_solve(factor, np.eye(len(factor[0]))).diagonal() for factor in self._factors])

    def _apart(self, x: np.ndarray, on_block: Callable[..., np.ndarray]) -> np.ndarray:
        pairs = zip(self._factors, self._places, strict=True)
        return np.concatenate([on_block(factor, x[place]) for factor, place in pairs])


def consecutive(size: int, width: int) -> list[slice]:
    """Slices of so many consecutive rows, the last perhaps of fewer."""
    return [slice(start, min(start + width, size)) for start in range(0, size, width)]


def block_jacobi(kernel: Kernel, noise: np.ndarray, width: int) -> BlockDiagonal:
    """Precondition by blocks on the diagonal.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Added to the diagonal of K, positive.
    width : int
        Rows of a block; the article takes the root of n.
    """
    places = consecutive(kernel.size, width)
    return BlockDiagonal(places, [kernel.block(place) + np.diag(noise[place]) for place in places])
