"""Gradients in K and in the noise on its diagonal, stored as a few vectors instead of a matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class CovarianceBar(NamedTuple):
    """The derivative of a function in K and in the noise on its diagonal.

    The function changes by the sum of left_j' dK right_j over pairs of columns, plus <weights, dK[:, points]>, plus
    noise' dnoise.

    `left`, `right` (n, k); `points` (m,) of int; `weights` (n, m); `noise` (n,).
    """

    left: np.ndarray
    right: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    noise: np.ndarray

    @property
    def diagonal(self) -> np.ndarray:
        """The derivative in the diagonal of K: (n,)."""
        own = np.einsum("nk,nk->n", self.left, self.right)
        own[self.points] += self.weights[self.points, np.arange(len(self.points))]
        return own
