"""Block matrices W over C vectors of n elements, one after another, which couple elements of the same site only.

A flat vector has C n elements: the n of the first block, then the n of the second, and so on. W couples the C elements
that belong to the same site and no others, so it consists of n matrices of shape (C, C). There are two forms. The first
needs C numbers per site, and no factorization of more than n rows (`block_shrinkage.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from pmgp.core.numerics.block_shrinkage import ContrastShrinkage, DenseShrinkage, Shrinkage

# Smallest value of a positive parameter; below it a site carries no information.
SMALLEST = 1e-10
LARGEST_LOGARITHM = 30.0
# Relative rounding error of squares of elements that differ by orders of magnitude, as if one class is nearly certain.
ROUNDING = 1e-24
# Least-squares passes when a softmax's form is fitted to other blocks; the start is exact where an exact fit exists.
PASSES = 5


def stacked(x: np.ndarray, n: int) -> np.ndarray:
    """Split a flat vector into its blocks, for n sites: (..., C n) -> (..., C, n)."""
    return x.reshape(*x.shape[:-1], -1, n)


def flat(x: np.ndarray) -> np.ndarray:
    """Join blocks into one flat vector: (..., C, n) -> (..., C n)."""
    return x.reshape(*x.shape[:-2], -1)


def along_last(matrix: Any, x: np.ndarray) -> np.ndarray:
    """Return the products of a matrix (n, m), which may be sparse, with vectors: (..., m) -> (..., n)."""
    return (matrix @ x.reshape(-1, x.shape[-1]).T).T.reshape(*x.shape[:-1], matrix.shape[0])


def definite(matrices: np.ndarray, least: float = 0.0) -> np.ndarray:
    """Return whether the correlations of (n, d, d) symmetric matrices have only eigenvalues above a number: (n,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.einsum("idd->id", matrices))
        correlations = matrices / (root[:, :, None] * root[:, None, :])
    finite = np.isfinite(correlations).all(axis=(1, 2))
    return finite & (np.linalg.eigvalsh(np.where(finite[:, None, None], correlations, 0.0))[:, 0] > least)


class BlockMatrix(Protocol):
    """W, symmetric and positive semidefinite."""

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return W x: (..., C n) -> (..., C n)."""

    def quadratic(self, x: np.ndarray) -> np.ndarray:
        """Return x' W x: (..., C n) -> (...)."""

    def root_product(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws with covariance W: (..., C n) -> (..., C n)."""

    def shrinkage(self, covariances: Sequence[np.ndarray]) -> Shrinkage | None:
        """Return (K^-1 + W)^-1 for a block-diagonal K given by C lower triangles (n, n); None where K is indefinite."""

    @property
    def blocks(self) -> np.ndarray:
        """The n blocks: (n, C, C)."""

    def subset(self, sites: slice) -> Self:
        """Return W for some of the sites."""

    @property
    def parameters(self) -> np.ndarray:
        """The vector, without constraints, from which :meth:`of` makes the matrix."""

    @classmethod
    def of(cls, parameters: np.ndarray, n: int) -> Self:
        """Make the matrix from its parameters, for n sites."""

    @classmethod
    def nearest(cls, blocks: np.ndarray) -> Self:
        """Return the matrix of this form that is nearest to symmetric blocks of shape (n, C, C)."""

    def towards(self, other: Self, step: float) -> Self:
        """Move a fraction of the way to another matrix of the same form."""


@dataclass(frozen=True, eq=False)
class ContrastBlocks:
    """W_i = diag(a_i) - a_i a_i' / sum(a_i), which is zero for vectors whose elements are equal.

    The curvature of a softmax is of this form, with counts times probabilities for a.

    `scale` (C, n): a, positive.
    """

    scale: np.ndarray

    @cached_property
    def total(self) -> np.ndarray:
        """Sums of a over the blocks: (n,)."""
        return self.scale.sum(axis=0)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return W x: (..., C n) -> (..., C n)."""
        scaled = self.scale * stacked(x, self.total.size)
        common = scaled.sum(axis=-2, keepdims=True) / self.total
        return flat(scaled - self.scale * common)

    def quadratic(self, x: np.ndarray) -> np.ndarray:
        """Return x' W x: (..., C n) -> (...)."""
        scaled = self.scale * stacked(x, self.total.size)
        common = np.square(scaled.sum(axis=-2)) / self.total
        return np.einsum("...i,...i->...", flat(scaled), x) - common.sum(axis=-1)

    def root_product(self, normals: np.ndarray) -> np.ndarray:
        """Return A^1/2 (I - s s' / sum(a)) e with s the root of a: (..., C n) -> (..., C n)."""
        root, e = np.sqrt(self.scale), stacked(normals, self.total.size)
        common = (root * e).sum(axis=-2, keepdims=True) / self.total
        return flat(root * (e - root * common))

    def shrinkage(self, covariances: Sequence[np.ndarray]) -> ContrastShrinkage | None:
        """Return (K^-1 + W)^-1, using C + 1 factorizations and C inversions of n rows."""
        return ContrastShrinkage.of(covariances, self.scale)

    @cached_property
    def blocks(self) -> np.ndarray:
        """The n blocks: (n, C, C)."""
        a = self.scale.T
        found = a[:, :, None] * (-a / self.total[:, None])[:, None, :]
        np.einsum("icc->ic", found)[:] += a
        return found

    def subset(self, sites: slice) -> ContrastBlocks:
        """Return W for some of the sites."""
        return ContrastBlocks(self.scale[:, sites])

    @property
    def parameters(self) -> np.ndarray:
        """Log a: (C n,)."""
        return np.log(flat(self.scale))

    @classmethod
    def of(cls, parameters: np.ndarray, n: int) -> ContrastBlocks:
        """Make the matrix from log a: (C n,)."""
        return cls(np.exp(np.clip(stacked(parameters, n), np.log(SMALLEST), LARGEST_LOGARITHM)))

    @classmethod
    def nearest(cls, blocks: np.ndarray) -> ContrastBlocks:
        """Fit (n, C, C) blocks by least squares over the elements off the diagonal; for three classes the fit is exact.

        With a_c = r_c sum(r) the elements are -r_c r_d.
        """
        coupling = -blocks
        np.einsum("ncc->nc", coupling)[:] = 0.0
        r = _products_of_pairs(coupling)
        for _ in range(PASSES):
            r = _least_squares_pass(coupling, r)
        return cls(np.maximum((r * r.sum(axis=1, keepdims=True)).T, SMALLEST).copy())

    def towards(self, other: ContrastBlocks, step: float) -> ContrastBlocks:
        """Return the matrix a fraction of the way to another one."""
        return ContrastBlocks(self.scale + step * (other.scale - self.scale))


def _products_of_pairs(coupling: np.ndarray) -> np.ndarray:
    """Return least-squares r_c from all p_ca p_cb = r_c^2 p_ab: exact where p_cd = r_c r_d, (n, C, C) to (n, C)."""
    if coupling.shape[1] == 2:
        return np.sqrt(np.maximum(coupling[:, :, ::-1].diagonal(axis1=1, axis2=2), 0.0))
    products = ((coupling @ coupling) * coupling).sum(axis=2)
    total = np.square(coupling).sum(axis=(1, 2))[:, None]
    squares = total - 2.0 * np.square(coupling).sum(axis=2)
    return np.sqrt(np.maximum(products, 0.0) / np.maximum(squares, ROUNDING * total + np.finfo(float).tiny))


def _least_squares_pass(coupling: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Fit each r_c in turn, given the others, to the couplings r_c r_d: (n, C, C) and (n, C) to (n, C)."""
    r = r.copy()
    for c in range(r.shape[1]):
        r[:, c] = 0.0
        square = np.maximum(np.square(r).sum(axis=1), np.finfo(float).tiny)
        r[:, c] = np.maximum((coupling[:, c] * r).sum(axis=1) / square, 0.0)
    return r


@dataclass(frozen=True, eq=False)
class DenseBlocks:
    """W given by its blocks.

    `blocks` (n, C, C): positive definite.
    """

    blocks: np.ndarray

    @cached_property
    def root(self) -> np.ndarray:
        """Lower Cholesky factors of the blocks: (n, C, C)."""
        return np.linalg.cholesky(self.blocks)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return W x: (..., C n) -> (..., C n)."""
        return flat(np.einsum("icd,...di->...ci", self.blocks, stacked(x, len(self.blocks))))

    def quadratic(self, x: np.ndarray) -> np.ndarray:
        """Return x' W x: (..., C n) -> (...)."""
        return np.einsum("...i,...i->...", self.product(x), x)

    def root_product(self, normals: np.ndarray) -> np.ndarray:
        """Return each block's Cholesky factor times its normals: (..., C n) -> (..., C n)."""
        return flat(np.einsum("icd,...di->...ci", self.root, stacked(normals, len(self.blocks))))

    def shrinkage(self, covariances: Sequence[np.ndarray]) -> DenseShrinkage | None:
        """Return (K^-1 + W)^-1, using one factorization of C n rows."""
        return DenseShrinkage.of(covariances, self.root)

    def subset(self, sites: slice) -> DenseBlocks:
        """Return W for some of the sites."""
        return DenseBlocks(self.blocks[sites])

    @property
    def parameters(self) -> np.ndarray:
        """The Cholesky factors, with logarithms on their diagonals: (n C (C + 1) / 2,)."""
        free = self.root.copy()
        diagonal = np.einsum("icc->ic", free)
        diagonal[:] = np.log(diagonal)
        return free[:, *np.tril_indices(free.shape[1])].ravel()

    @classmethod
    def of(cls, parameters: np.ndarray, n: int) -> DenseBlocks:
        """Make the matrix from Cholesky factors with logarithms on their diagonals."""
        elements = parameters.reshape(n, -1)
        number = int(np.sqrt(2 * elements.shape[1]))
        root = np.zeros((n, number, number))
        root[:, *np.tril_indices(number)] = elements
        diagonal = np.einsum("icc->ic", root)
        diagonal[:] = np.exp(np.clip(diagonal, 0.5 * np.log(SMALLEST), 0.5 * LARGEST_LOGARITHM))
        return cls(root @ root.swapaxes(1, 2))

    @classmethod
    def nearest(cls, blocks: np.ndarray) -> DenseBlocks:
        """Replace negative eigenvalues by the smallest positive one that can be factorized."""
        return cls(_with_eigenvalues(blocks, np.zeros_like))

    @classmethod
    def from_curvature(cls, blocks: np.ndarray) -> DenseBlocks:
        """Replace eigenvalues by their absolute values, as Newton's method needs: (n, C, C)."""
        return cls(_with_eigenvalues(blocks, np.negative))

    def towards(self, other: DenseBlocks, step: float) -> DenseBlocks:
        """Return the matrix a fraction of the way to another one."""
        return DenseBlocks(self.blocks + step * (other.blocks - self.blocks))


def _with_eigenvalues(blocks: np.ndarray, negative: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Apply a function to the negative eigenvalues of blocks, and raise eigenvalues too small for a factorization.

    The eigenvalues are those in units in which each vector's curvature is one on average.
    """
    unit = np.sqrt(np.abs(np.einsum("icc->ic", blocks)).mean(axis=0))
    unit[unit == 0.0] = 1.0
    values, vectors = np.linalg.eigh(blocks / np.outer(unit, unit))
    values = np.where(values < 0.0, negative(values), values)
    smallest = np.maximum(SMALLEST, 1e-10 * values.max(axis=1, keepdims=True))
    vectors *= unit[:, None]
    return (vectors * np.maximum(values, smallest)[:, None, :]) @ vectors.swapaxes(1, 2)
