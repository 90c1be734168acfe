"""Precisions of fields on areas, lattices and meshes: sums of fixed matrices times functions of hyper-parameters.

A conditional autoregression has the precision tau (D - alpha W), where W shows which areas are neighbors (Besag 1974).
The solution of a stochastic partial differential equation on a mesh has the precision tau^2 (kappa^2 C + G) C^-1
(kappa^2 C + G), that of a Matern field of order 1 in two dimensions (Lindgren, Rue and Lindstrom 2011, section 2.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from pmgp.core.markov.prior import PrecisionPrior, PrecisionShrinkage
from pmgp.core.markov.soft_sums import soft_sum
from pmgp.core.markov.sparse import SparseFactor, SparsePattern

# Largest relative error of the precision of a field's level that rounding may cause, and the largest row sum of a
# matrix, relative to its elements, that is zero apart from rounding.
TOLERANCE, ROUNDED = 1e-3, 1e-10


@dataclass(frozen=True, eq=False)
class LevelPrior(PrecisionPrior):
    """A prior whose precision hardly restricts the level of x, so that Q 1 is lost where Q is rounded.

    `sums` (m,): Q 1.
    """

    pattern: SparsePattern
    sums: np.ndarray

    @cached_property
    def factor(self) -> SparseFactor | None:
        """Factor of Q; None if Q is indefinite."""
        return self.pattern.factorize_with_sums(self.values, self.sums)

    def shrinkage(self, precision: np.ndarray) -> PrecisionShrinkage | None:
        """Return S for sites with these precisions, or None if Q or Q + A'WA is indefinite."""
        if self.factor is None:
            return None
        ones = self.pattern.observe(np.ones(self.pattern.shape))
        sums = self.sums + self.pattern.spread(precision * ones)
        factor = self.pattern.factorize_with_sums(self.pattern.with_sites(self.values, precision), sums)
        return None if factor is None else PrecisionShrinkage(self, precision, factor)

    def is_resolved(self) -> bool:
        """Whether the values of Q alone give the precision of the level, by the size of their rounding errors."""
        error = np.finfo(float).eps * np.abs(self.values).max()
        return bool(error <= TOLERANCE * self.sums.mean())

    def quadratic(self, x: np.ndarray) -> float:
        """Return x'Q x for x of shape (m,), in which the level contributes Q 1 alone."""
        level = x.mean()
        rest = x - level
        return float((level * level + 2.0 * level * rest) @ self.sums + rest @ self.pattern.product(self.values, rest))

    def multiplied(self, x: np.ndarray) -> np.ndarray:
        """Return Q x for x of shape (m,)."""
        level = x.mean()
        return level * self.sums + self.pattern.product(self.values, x - level)


@dataclass(frozen=True, eq=False, repr=False)
class SummedPrecision:
    """The precision Q = sum_k c_k Q_k with fixed matrices Q_k, on one pattern.

    `parts` (k, nnz): values of the Q_k.
    """

    pattern: SparsePattern
    parts: np.ndarray

    @classmethod
    def of(cls, matrices: Sequence[Any], design: Any = None) -> SummedPrecision:
        """Make the precision from symmetric (m, m) matrices Q_k, and a design A of shape (n, m)."""
        stored = [sparse.csc_array(one, copy=True) for one in matrices]
        for one in stored:
            one.eliminate_zeros()
        pattern = SparsePattern(sum(abs(one) for one in stored), design)
        return cls(pattern, np.stack([pattern.part(one) for one in stored]))

    def prior(self, coefficients: np.ndarray, offset: float | np.ndarray = 0.0) -> PrecisionPrior:
        """Return the Gaussian whose precision has the coefficients c, (k,), and whose A x has the mean `offset`.

        The offset is a number or of shape (n,).
        """
        return PrecisionPrior.centered(self.pattern, coefficients @ self.parts, offset)


@dataclass(frozen=True, eq=False, repr=False)
class LevelPrecision(SummedPrecision):
    """A `SummedPrecision` that hardly restricts the level of x, so that its rows nearly sum to zero.

    `sums` (k, m): the Q_k 1.
    """

    sums: np.ndarray

    def prior(self, coefficients: np.ndarray, offset: float | np.ndarray = 0.0) -> LevelPrior:
        """Return the Gaussian, as above."""
        given = super().prior(coefficients, offset)
        return LevelPrior(self.pattern, given.values, given.state_mean, given.offset, coefficients @ self.sums)


def checked_neighbors(weights: Any) -> sparse.csc_array:
    """Return the weights of neighbors as a sparse matrix, after checks.

    Shapes: weights (n, n) dense or sparse.

    Raises ValueError for a matrix that is not square, symmetric, finite and zero on its diagonal, and for areas without
    neighbors.
    """
    found = sparse.csc_array(weights, dtype=np.float64)
    found.eliminate_zeros()
    if found.shape[0] != found.shape[1]:
        raise ValueError(f"W must have a row and a column for each area, not the shape {found.shape}")
    if not np.isfinite(found.data).all():
        raise ValueError("W has weights that are not finite")
    if abs(found - found.T).sum() > 0.0:
        raise ValueError("W is not symmetric: if one area is the neighbor of another, the converse must hold")
    if found.diagonal().any():
        raise ValueError("W has elements on its diagonal, but no area is its own neighbor")
    islands = np.flatnonzero(found.sum(axis=0) <= 0.0)
    if len(islands):
        raise ValueError(
            f"{len(islands)} of the {found.shape[0]} areas have no neighbors, and therefore no precision: "
            f"{', '.join(map(str, islands[:8]))}{', ...' if len(islands) > 8 else ''}; connect them with the nearest "
            "areas, or leave them out of W and give them an effect of their own"
        )
    return found


def number_of_pieces(neighbors: Any) -> int:
    """Return the number of connected pieces of a map."""
    return int(connected_components(neighbors, directed=False, return_labels=False))


def autoregression_on_areas(neighbors: Any) -> SummedPrecision:
    """Return the precision tau (D - alpha W), with coefficients (tau, tau alpha) and the row sums of W in D."""
    return SummedPrecision.of([sparse.diags_array(np.asarray(neighbors.sum(axis=0))), -neighbors])


def autoregression_coefficients(alpha: float, tau: float) -> np.ndarray:
    """Return the coefficients of :func:`autoregression_on_areas`; NaN unless -1 < alpha < 1, 0 < tau < inf."""
    possible = -1.0 < alpha < 1.0 and 0.0 < tau < np.inf
    return np.array([tau, tau * alpha]) if possible else np.full(2, np.nan)


def intrinsic_autoregression(neighbors: Any, deviation: float, deviation_of_mean: float) -> PrecisionPrior:
    """Return an intrinsic autoregression whose sum is known up to an error.

    Differences of neighbors have one standard deviation, and the mean of all areas has another.

    `neighbors` (n, n): ones and zeros.

    Raises ValueError for areas in several pieces, whose levels would have no density, and deviations that are not
    positive.
    """
    if not (0.0 < deviation < np.inf and 0.0 < deviation_of_mean < np.inf):
        raise ValueError(f"sigma and zero_sum_stdev must be positive, not {deviation} and {deviation_of_mean}")
    pieces = number_of_pieces(neighbors)
    if pieces > 1:
        raise ValueError(
            f"the areas form {pieces} unconnected pieces, but pm.ICAR has a prior only for the sum of all areas: the "
            "differences between pieces have no density. Connect them, or use pm.CAR with an alpha near one"
        )
    number = neighbors.shape[0]
    laplacian = sparse.csc_array(sparse.diags_array(np.asarray(neighbors.sum(axis=0))) - neighbors)
    pattern, values = soft_sum(laplacian / deviation**2, 1.0 / (deviation_of_mean * number) ** 2)
    return PrecisionPrior.centered(pattern, values)


def matern_on_mesh(mass: np.ndarray, stiffness: Any, design: Any = None) -> LevelPrecision:
    """Return the precision tau^2 (kappa^2 C + G) C^-1 (kappa^2 C + G), with coefficients tau^2 (kappa^4, 2 kappa^2, 1).

    Gradients of a level are zero, G 1 = 0, and it has the precision tau^2 kappa^4 1'C 1. For long length-scales this is
    far below the rounding errors of G C^-1 G, which is of size 16 on a lattice of unit cells.

    - `mass` (m,): diagonal of C, the area of each node
    - `stiffness` (m, m): G
    - `design` (n, m): A: the field at the observations is A times its values at the nodes
    """
    twice = sparse.csc_array(stiffness @ sparse.diags_array(1.0 / mass) @ stiffness)
    summed = SummedPrecision.of([sparse.diags_array(mass), stiffness, twice], design)
    slopes = np.asarray(stiffness.sum(axis=1)).ravel()
    slopes[np.abs(slopes) <= ROUNDED * abs(stiffness).max()] = 0.0
    return LevelPrecision(summed.pattern, summed.parts, np.stack([mass, slopes, stiffness @ (slopes / mass)]))


def matern_coefficients(lengthscale: float, deviation: float) -> np.ndarray:
    """Return the coefficients of :func:`matern_on_mesh`; NaN unless length-scale and deviation are positive and finite.

    They follow from kappa = sqrt(2) / lengthscale and the variance 1 / (4 pi kappa^2 tau^2).
    """
    if not (0.0 < lengthscale < np.inf and 0.0 < deviation < np.inf):
        return np.full(3, np.nan)
    squared = 2.0 / lengthscale**2
    return np.array([squared**2, 2.0 * squared, 1.0]) / (4.0 * np.pi * squared * deviation**2)
