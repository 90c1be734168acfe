"""The upper triangle of a matrix as one row, which concatenates the rows of the triangle.

Where K is an elementwise function of distances, its triangle is computed in this form, in parts that stay in the cache:
for a hundred points, square blocks on the diagonal would be twice as large.
"""

from __future__ import annotations

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.compiled.loading import compiled
from pmgp.interface.covariance.program import Instruction


def elementwise(code: list[Instruction], leaves: list[TensorVariable]) -> bool:
    """Return whether instructions take only matrices of distances and numbers."""
    numbers = all(all(leaf.type.broadcastable) for leaf in leaves)
    return numbers and all(step.kind in ("distance", "leaf", "constant", "call") for step in code)


def packed(matrix: np.ndarray) -> np.ndarray:
    """Return the packed upper triangle of a matrix: (n, n) -> (1, n (n + 1) / 2)."""
    return matrix[np.triu_indices(len(matrix))][None, :]


def parts(n: int, size: int) -> list[tuple[int, slice]]:
    """Return the first row and the position of each part, which has whole rows and about `size` elements."""
    found, start, stop = [(0, slice(0, 0))], 0, 0
    for row in range(n):
        if stop - start >= size:
            found.append((row, slice(stop, stop)))
            start = stop
        stop += n - row
        found[-1] = (found[-1][0], slice(start, stop))
    return found


def unpack(part: np.ndarray, first: int, mirrored: bool, upper: np.ndarray) -> None:
    """Write a part, beginning with the row `first`, to its place in a matrix; if mirrored, also below the diagonal."""
    compiled("sites.unpack")(part, first, mirrored, upper)
