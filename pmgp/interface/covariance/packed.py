"""The upper triangle of a matrix in one row: its rows one after another, and nothing beside them.

Where K is an elementwise function of distances, its triangle is computed so, in parts that stay in the cache: square
blocks on the diagonal would be twice as much for a hundred points.
"""

from __future__ import annotations

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.compiled.loading import compiled
from pmgp.interface.covariance.program import Instruction


def elementwise(code: list[Instruction], leaves: list[TensorVariable]) -> bool:
    """Whether instructions take nothing but matrices of distances and numbers."""
    numbers = all(all(leaf.type.broadcastable) for leaf in leaves)
    return numbers and all(step.kind in ("distance", "leaf", "constant", "call") for step in code)


def packed(matrix: np.ndarray) -> np.ndarray:
    """(n, n) -> (1, n (n + 1) / 2)."""
    return matrix[np.triu_indices(len(matrix))][None, :]


def parts(n: int, size: int) -> list[tuple[int, slice]]:
    """Parts of whole rows and of about so many elements: the first row of each, and where it stands."""
    found, start, stop = [(0, slice(0, 0))], 0, 0
    for row in range(n):
        if stop - start >= size:
            found.append((row, slice(stop, stop)))
            start = stop
        stop += n - row
        found[-1] = (found[-1][0], slice(start, stop))
    return found


def unpack(part: np.ndarray, first: int, mirrored: bool, upper: np.ndarray) -> None:
    """Write a part, which begins with the row `first`, to where it belongs, and to the mirror image of that."""
    compiled("sites.unpack")(part, first, mirrored, upper)
