"""The order of the variables, with the Cholesky factor in that order: Gibson, Glasbey and Elston (1994).

The next variable is always the one that is least likely to lie between its limits, given the expected values of those
before it. The most restrictive limits then come first, and the weights of sequential draws vary less.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

BLOCK = 48
# The largest variance, relative to the variable's own, that counts as zero, and the largest negative variance or
# eigenvalue that is taken for a rounding error.
SMALLEST_VARIANCE = 1e-12
LARGEST_DEFECT = 1e-8


class Ordered(NamedTuple):
    """A truncated Gaussian with its variables in the order of drawing.

    - `order` (n,) of int: the variable at each place
    - `lower`, `upper` (n,): limits, in that order
    - `factor` (n, n): lower triangular L, where L L' is the covariance in that order. Diagonal elements are zero for
      variables that are functions of those before them
    """

    order: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    factor: np.ndarray

    @property
    def size(self) -> int:
        """The number of variables n."""
        return len(self.order)

    def original(self, values: np.ndarray) -> np.ndarray:
        """Return draws with the variables in their original order: (n, draws) to (draws, n)."""
        result = np.empty_like(values.T)
        result[:, self.order] = values.T
        return result


def ordered(correlation: np.ndarray, lower: np.ndarray, upper: np.ndarray, order: np.ndarray | None = None) -> Ordered:
    """Return the variables in the order of drawing, with the factor in that order.

    `correlation` (n, n): its diagonal elements are one, or zero; `lower`, `upper` (n,); `order` (n,) of int: the order,
    if it is not to be chosen.

    Raises ValueError if the matrix is not positive semidefinite.
    """
    from pmgp.core.orthants.compiled import order_block

    n = len(lower)
    places = np.arange(n) if order is None else np.array(order)
    left = np.array(correlation if order is None else correlation[np.ix_(places, places)], order="C")
    states = np.stack([lower[places], upper[places], left.diagonal(), np.zeros(n)])
    factor = np.zeros((n, n))
    tolerance = max(SMALLEST_VARIANCE, 10.0 * n * np.finfo(float).eps)
    defect = 0.0
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        defect = max(defect, order_block(start, stop, left, factor, states, places, tolerance, order is None))
        columns = factor[stop:, start:stop]
        left[stop:, stop:] -= columns @ columns.T
    if defect > LARGEST_DEFECT or not _reproduces(factor, correlation, places):
        factor = _by_eigenvalues(correlation[np.ix_(places, places)])
    return Ordered(places, states[0], states[1], factor)


def _reproduces(factor: np.ndarray, correlation: np.ndarray, places: np.ndarray) -> bool:
    """Return whether L L' is the matrix; if it is nearly singular, small pivots may be mere rounding errors."""
    vector = np.cos(np.arange(len(places)))
    product = np.empty_like(vector)
    product[places] = factor @ (factor.T @ vector[places])
    return bool(np.abs(product - correlation @ vector).max() < LARGEST_DEFECT * len(places))


def _by_eigenvalues(matrix: np.ndarray) -> np.ndarray:
    """Return the factor from a root of the matrix and its QR decomposition, which is accurate in any order.

    Raises ValueError if the matrix is not positive semidefinite.
    """
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -LARGEST_DEFECT * len(matrix):
        raise ValueError(
            f"covariance must be positive semidefinite, but the correlations have an eigenvalue {values[0]:.3g}; "
            "add its size to the diagonal if it is due to rounding"
        )
    upper = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T, mode="r")
    factor = np.tril((upper * np.where(upper.diagonal() < 0.0, -1.0, 1.0)[:, None]).T)
    pivots = factor.diagonal()
    np.einsum("ii->i", factor)[:] = np.where(np.square(pivots) > np.finfo(float).eps ** 2, pivots, 0.0)
    return factor
