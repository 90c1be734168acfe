"""The thin values of some rows of a covariance, and gradients in them as gradients in the values of all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Index = tuple[Any, ...]


class ValuesOfRows:
    """The mean and the thin values of some rows and the same columns, as a function of theta.

    `values` returns the values of all rows, and `shape` has the numbers of leaves and of products among them.
    """

    def __init__(
        self, values: Callable[[np.ndarray], list[np.ndarray]], shape: tuple[int, int], rows: np.ndarray
    ) -> None:
        self._values, self._shape, self._rows = values, shape, rows

    def __call__(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the values in the order of `values`."""
        whole = self._values(theta)
        return [value[index] for value, index in zip(whole, self._indices(whole), strict=True)]

    def extended(self, theta: np.ndarray, gradients: list[np.ndarray]) -> list[np.ndarray]:
        """Return gradients in the values of all rows, zero for the other rows."""
        whole = self._values(theta)
        found = [np.zeros(np.shape(value)) for value in whole]
        for zeros, index, gradient in zip(found, self._indices(whole), gradients, strict=True):
            zeros[index] = gradient
        return found

    def _indices(self, whole: list[np.ndarray]) -> list[Index]:
        """Return where the rows are in the mean, the leaves, both factors of each product, and the diagonals."""
        leaves, products = self._shape
        by_rows, by_columns = (self._rows,), (slice(None), self._rows)
        diagonals = len(whole) - 1 - leaves - 2 * products
        of_leaves = [self._of_leaf(np.shape(leaf)) for leaf in whole[1 : 1 + leaves]]
        return [by_rows, *of_leaves, *[by_rows, by_columns] * products, *[by_rows] * diagonals]

    def _of_leaf(self, shape: tuple[int, int]) -> Index:
        """Return where the rows are in a matrix, a column, a row, or a number."""
        if min(shape) > 1:
            return np.ix_(self._rows, self._rows)
        return tuple(self._rows if length > 1 else slice(None) for length in shape)
