"""Runs the instructions of a covariance on any part of it.

An instruction that is not a NumPy call takes a part of an input, and the requested part of K says which one:
`Rectangle`, `Gathered` and `OnDiagonal` are the only classes that know the meaning of such instructions. `MomentParts`
combines parts into rectangles, the diagonal and products with vectors, without making an n by n array.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pmgp.interface.covariance.program import Instruction

# Elements in a block: a few arrays of this size stay in the second-level cache.
BLOCK_ELEMENTS = 32_768
SMALLEST_BLOCK = 32
Inputs = dict[str, list[Any]]


class Rectangle:
    """Some rows and columns of K, on which instructions take their parts of the inputs."""

    def __init__(self, rows: slice, columns: slice) -> None:
        self.rows = rows
        self.columns = columns
        self.shape = rows.stop - rows.start, columns.stop - columns.start

    def leaf(self, values: Any) -> Any:
        """A part of a matrix, a column, a row or a number."""
        if values.size == 1:
            return values
        height, width = values.shape
        return values[self.rows if height > 1 else slice(None), self.columns if width > 1 else slice(None)]

    distance = leaf

    def product(self, factors: tuple[Any, Any], out: Any = None) -> Any:
        """A part of a product of matrices, in `out` where that is given."""
        left, right = factors[0][self.rows], factors[1][:, self.columns]
        return left @ right if out is None else np.matmul(left, right, out=out)

    def diagonal(self, values: Any, matrix: Any, out: Any = None) -> Any:
        """Add to a matrix the part of a vector that belongs on the diagonal here, and write to `out` if it is given."""
        met = self._met()
        if out is None and met.start == met.stop:
            return matrix
        target = np.empty(self.shape) if out is None else out
        if target is not matrix:
            target[...] = matrix
        where, elements = self.of_diagonal(target)
        elements += values[where]
        return target

    def constant(self, value: float) -> Any:
        """A matrix of one value."""
        return np.full(self.shape, value)

    def of_diagonal(self, matrix: np.ndarray) -> tuple[slice, np.ndarray]:
        """Return the slice of K's diagonal in this tile, and a view of the same elements of a matrix."""
        met = self._met()
        row, column, size = met.start - self.rows.start, met.start - self.columns.start, met.stop - met.start
        return met, np.einsum("ii->i", matrix[row : row + size, column : column + size])

    def _met(self) -> slice:
        start = max(self.rows.start, self.columns.start)
        return slice(start, max(start, min(self.rows.stop, self.columns.stop)))


class Gathered:
    """Some rows of K, given by a slice, and any columns, all different."""

    def __init__(self, rows: slice, columns: np.ndarray) -> None:
        self.rows = rows
        self.columns = columns
        self.shape = rows.stop - rows.start, len(columns)

    def leaf(self, values: np.ndarray) -> np.ndarray:
        """A part of a matrix, a column, a row or a number."""
        height, width = values.shape
        found = values[self.rows] if height > 1 else values
        return found[:, self.columns] if width > 1 else found

    distance = leaf

    def product(self, factors: tuple[np.ndarray, np.ndarray], out: np.ndarray | None = None) -> np.ndarray:
        """A part of a product of matrices, in `out` where that is given."""
        return np.matmul(factors[0][self.rows], factors[1][:, self.columns], out=out)

    def diagonal(self, values: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """A matrix plus the part of a vector that belongs on the diagonal here."""
        result = np.array(np.broadcast_to(matrix, self.shape))
        met, rows = self._met()
        result[rows, met] += values[self.columns[met]]
        return result

    def constant(self, value: float) -> np.ndarray:
        """A matrix of one value."""
        return np.full(self.shape, value)

    def of_diagonal(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the indices of the elements of K's diagonal that are here, and the same elements of a matrix."""
        met, rows = self._met()
        return self.columns[met], matrix[rows, met]

    def _met(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the places among the columns, and among the rows, of the points that are in both."""
        met = np.flatnonzero((self.columns >= self.rows.start) & (self.columns < self.rows.stop))
        return met, self.columns[met] - self.rows.start


class OnDiagonal:
    """Some elements of the diagonal of K, on which instructions take their parts of the inputs."""

    def __init__(self, where: slice) -> None:
        self.where = where

    def leaf(self, values: Any) -> Any:
        """A part of a matrix's diagonal, of a column or a row, or a number."""
        if min(values.shape) > 1:
            return np.diagonal(values)[self.where]
        vector = values.reshape(-1)
        return vector if vector.size == 1 else vector[self.where]

    distance = leaf

    def product(self, factors: tuple[Any, Any]) -> Any:
        """A part of the diagonal of a product of matrices."""
        left, right = factors
        return np.einsum("ij,ji->i", left[self.where], right[:, self.where])

    def diagonal(self, values: Any, vector: Any) -> Any:
        """Add the part of a vector that belongs here."""
        return vector + values[self.where]

    def constant(self, value: float) -> float:
        """The value, which is the same for all elements."""
        return value


def by_kind(values: list[Any], shape: tuple[int, int]) -> Inputs:
    """Return values of a program's thin inputs, `Program.thin`, keyed by the kind of instruction that takes them."""
    leaves, products = shape
    first = leaves + 2 * products
    pairs = list(zip(values[leaves:first:2], values[leaves + 1 : first : 2], strict=True))
    return {"leaf": values[:leaves], "product": pairs, "diagonal": values[first:]}


def run(code: list[Instruction], inputs: Inputs, place: Rectangle | Gathered | OnDiagonal) -> list[Any]:
    """Return the registers after all instructions have run, each with its own memory.

    The inputs are arrays, or pairs of them for products, keyed by the kind of instruction that takes them.
    """
    registers: list[Any] = []
    for kind, function, sources, number, value in code:
        taken = [registers[source] for source in sources]
        if kind == "call":
            registers.append(function(*taken))
        elif kind == "constant":
            registers.append(place.constant(value))
        else:
            registers.append(getattr(place, kind)(inputs[kind][number], *taken))
    return registers


class MomentParts:
    """The mean and the covariance of a vector; a part is computed when it is asked for.

    Each "leaf" among the inputs has shape (n, n), (n, 1), (1, n) or (1, 1), each "product" is a pair of arrays of
    shapes (n, k) and (k, n), each "diagonal" has shape (n,), and each "distance" has shape (n, n).
    """

    def __init__(self, mean: Any, code: list[Instruction], inputs: Inputs) -> None:
        self.mean = mean
        self._code = code
        self._inputs = inputs

    def rectangle(self, rows: slice, columns: slice) -> Any:
        """Return some rows and columns of the covariance, which are slices with a start and a stop."""
        height = max(1, BLOCK_ELEMENTS // (columns.stop - columns.start))
        starts = range(rows.start, rows.stop, height)
        return np.concatenate([self.tile(slice(s, min(s + height, rows.stop)), columns) for s in starts])

    def gathered(self, columns: np.ndarray) -> np.ndarray:
        """Return m different columns of the covariance, (m,) -> (n, m)."""
        found = np.empty((len(self.mean), len(columns)))
        for rows in bands(*found.shape):
            place = Gathered(rows, columns)
            found[rows] = np.broadcast_to(run(self._code, self._inputs, place)[-1], place.shape)
        return found

    def block(self, where: slice) -> np.ndarray:
        """Return the covariance of the points of a slice: (m, m)."""
        return self.rectangle(where, where)

    def lower_triangle(self, where: slice) -> np.ndarray:
        """Return a square part on the diagonal in Fortran order, whose upper triangle is not defined."""
        size = where.stop - where.start
        upper = np.empty((size, size))
        for rows, columns in trapezia(size):
            upper[rows, columns] = self.tile(_shifted(rows, where.start), _shifted(columns, where.start))
        return upper.T

    def diagonal(self, where: slice) -> Any:
        """Return a part of the diagonal."""
        found = run(self._code, self._inputs, OnDiagonal(where))[-1]
        return np.array(np.broadcast_to(found, (where.stop - where.start,)))

    def product(self, vectors: Any) -> Any:
        """Multiply the covariance by the columns of an (n, k) array; each pair of mirrored tiles is computed once."""
        places = intervals(len(vectors))
        sums: list[Any] = [0.0] * len(places)
        for i, rows in enumerate(places):
            for j, columns in enumerate(places[i:], i):
                tile = self.tile(rows, columns)
                sums[i] = sums[i] + tile @ vectors[columns]
                if j > i:
                    sums[j] = sums[j] + tile.T @ vectors[rows]
        return np.concatenate(sums)

    def tile(self, rows: slice, columns: slice) -> Any:
        """Return a rectangle, computed in one piece."""
        place = Rectangle(rows, columns)
        return np.broadcast_to(run(self._code, self._inputs, place)[-1], place.shape)


def _shifted(part: slice, start: int) -> slice:
    return slice(part.start + start, part.stop + start)


def trapezia(n: int) -> list[tuple[slice, slice]]:
    """Return rows and columns of blocks that cover the upper triangle, each from the diagonal to the last column."""
    bounds = [0]
    while (start := bounds[-1]) < n:
        bounds.append(min(n, start + max(SMALLEST_BLOCK, BLOCK_ELEMENTS // (n - start))))
    return [(slice(start, stop), slice(start, n)) for start, stop in pairwise(bounds)]


def bands(n: int, width: int) -> list[slice]:
    """Return the rows of blocks that have `width` columns."""
    height = max(1, BLOCK_ELEMENTS // max(width, 1))
    return [slice(start, min(start + height, n)) for start in range(0, n, height)]


def intervals(n: int) -> list[slice]:
    """Return the rows of square blocks."""
    side = int(BLOCK_ELEMENTS**0.5)
    return [slice(start, min(start + side, n)) for start in range(0, n, side)]
