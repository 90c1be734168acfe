"""P = the diagonal blocks of K + D (Cutajar et al. 2016, section 3.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pmgp.core.iterative.preconditioners import Kernel

__all__ = ["BlockDiagonal", "block_jacobi", "consecutive"]


class BlockDiagonal:
    """A block-diagonal matrix, factorized.

    `slices`: rows of the blocks, which follow each other and cover all rows; `blocks`: the blocks, which are positive
    definite.
    """

    def __init__(self, slices: Sequence[slice], blocks: Sequence[np.ndarray]) -> None:
        self._slices = slices
        self._factors = [cho_factor(block, lower=True) for block in blocks]

    @property
    def log_determinant(self) -> float:
        """The sum of the blocks' log-determinants."""
        return 2.0 * float(sum(np.log(lower.diagonal()).sum() for lower, _ in self._factors))

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return P^-1 x, block by block: (n, k) -> (n, k)."""
        return self._blockwise(x, lambda factor, rows: cho_solve(factor, rows))

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, P): (n, size)."""
        normals = rng.standard_normal((self._slices[-1].stop, size))
        return self._blockwise(normals, lambda factor, rows: np.tril(factor[0]) @ rows)

    def inverse_diagonal(self) -> np.ndarray:
        """Return the diagonal of P^-1: (n,)."""
        return np.concatenate([cho_solve(factor, np.eye(len(factor[0]))).diagonal() for factor in self._factors])

    def _blockwise(self, x: np.ndarray, on_block: Callable[..., np.ndarray]) -> np.ndarray:
        pairs = zip(self._factors, self._slices, strict=True)
        return np.concatenate([on_block(factor, x[rows]) for factor, rows in pairs])


def consecutive(size: int, width: int) -> list[slice]:
    """Return slices of consecutive rows, at least `width` in each of them; the first ones may have one row more."""
    parts = np.array_split(np.arange(size), max(1, size // width))
    return [slice(int(rows[0]), int(rows[-1]) + 1) for rows in parts]


def block_jacobi(kernel: Kernel, noise: np.ndarray, width: int) -> BlockDiagonal:
    """Return the preconditioner of diagonal blocks.

    - `noise` (n,): positive numbers that are added to the diagonal of K
    - `width`: number of rows of a block, or a few more; the article uses sqrt(n)
    """
    slices = consecutive(kernel.size, width)
    return BlockDiagonal(slices, [kernel.block(rows) + np.diag(noise[rows]) for rows in slices])
