"""S = (K^-1 + W)^-1, the covariance K shrunk by W, for block-diagonal K and W with blocks of different shapes.

K has C blocks of shape (n, n), W has n blocks of shape (C, C) (`block_matrices.py`). Neither K nor W is inverted,
so both may be singular.

*Contrasts*: for W = D - D 1 (1' D 1)^-1 1' D, where D is diagonal and 1 stacks C identities of n rows, let
B_c = I + D_c^1/2 K_c D_c^1/2, E_c = D_c^1/2 B_c^-1 D_c^1/2, and M the sum of the E_c. T = (K^-1 + D)^-1 has the blocks
D_c^-1/2 B_c^-1 D_c^1/2 K_c, and S = T + T D 1 M^-1 1' D T, and log|I + K W| = sum_c log|B_c| + log|M| - log|1' D 1|:
Section 3.5 of Rasmussen and Williams (2006), whose Algorithm 3.3 leaves out log|M|. No matrix of more than n rows is
factorized, and K is multiplied once before each solve, because its square would lose twice as many digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Protocol

import numpy as np

from pmgp.core.numerics import linalg
from pmgp.core.numerics.compiled.loading import compiled, vectors
from pmgp.core.numerics.ledger import record


class Shrinkage(Protocol):
    """S = (K^-1 + W)^-1."""

    @property
    def log_determinant(self) -> float:
        """The log-determinant of I + K W."""

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x: (C n,) or (C n, k), of the same shape."""

    def drawn(self, u: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return draws with covariance S, from draws u with covariance K and standard normals e: (k, C n) arrays."""

    def marginals(self) -> np.ndarray:
        """Return the blocks of S, one for each of the n sites: (n, C, C)."""

    def resistances(self) -> list[np.ndarray]:
        """Return the C diagonal blocks of (K + W^-1)^-1 = W - W S W: (n, n), Fortran order."""


@dataclass(frozen=True, eq=False)
class ContrastShrinkage:
    """S for W that acts on contrasts.

    Solutions with many right-hand sides are products with the inverse triangles, which takes a third of the time.

    - `covariances` sequence of (n, n) arrays: the K_c, lower triangles
    - `scale` (C, n): D
    - `inverses`, `weighted` (C, n, n): upper triangles: transposes of the inverses of the lower Cholesky factors of the
      B_c, and of the E_c
    - `factor` (n, n): lower Cholesky factor of M
    - `log_determinant`: log determinant of I + K W
    """

    covariances: Sequence[np.ndarray]
    scale: np.ndarray
    inverses: np.ndarray
    weighted: np.ndarray
    factor: np.ndarray
    log_determinant: float

    @classmethod
    def of(cls, covariances: Sequence[np.ndarray], scale: np.ndarray) -> ContrastShrinkage | None:
        """Make S from lower triangles of the K_c and D of shape (C, n); None where a B_c is indefinite."""
        number, n = scale.shape
        inverses, weighted, total = np.empty((number, n, n)), np.empty((number, n, n)), np.zeros((n, n))
        condition = compiled("contrasts.conditioned")
        log_determinant = -float(np.log(scale.sum(axis=0)).sum())
        for covariance, *part in zip(covariances, scale, inverses, weighted, strict=True):
            record("cholesky")
            log_determinant += condition(*vectors(covariance.T, part[0]), *part[1:], total)
            if not isfinite(log_determinant):
                return None
            record("inverse")
        try:
            factor = linalg.cholesky(total.T, overwrite=True)
        except linalg.NotPositiveDefiniteError:
            return None
        log_determinant += linalg.log_determinant(factor)
        return cls(covariances, scale, inverses, weighted, factor, log_determinant)

    @cached_property
    def common(self) -> np.ndarray:
        """Inverse of the factor of M: (n, n), a lower triangle in Fortran order."""
        return linalg.triangular_inverse(self.factor)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x: (C n,) or (C n, k), of the same shape."""
        own = self._conditioned(_rows(x.reshape(x.shape[0], -1).T, len(self.scale)))
        summed = np.einsum("ci,cki->ki", self.scale, own)
        common = (
            linalg.cholesky_solve(self.factor, summed[0])[None, :]
            if len(summed) == 1
            else _solved(self.common, summed.T).T
        )
        found = self._conditioned(self.scale[:, None, :] * common, own)
        return found.swapaxes(1, 2).reshape(x.shape)

    def drawn(self, u: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return u + S (W^1/2 e - W u), using one product with T: (k, C n).

        With x = D^1/2 e - D u that is u + T (x + D 1 z) for z = -M^-1 sum_c E_c D_c^-1 x_c: the map takes the part
        that all blocks have in common, D 1 w, to zero, as T D 1 w - T D 1 M^-1 M w = 0. The blocks of the rest add up
        to zero, so 1' D T x is minus the sum of the E_c D_c^-1 x_c.
        """
        number = len(self.scale)
        of_prior, blocks = _rows(u, number), _rows(e, number)
        self._balance(of_prior, blocks)
        return self._conditioned(blocks, of_prior).swapaxes(0, 1).reshape(u.shape)

    def _balance(self, u: np.ndarray, e: np.ndarray) -> None:
        """Turn normals into x + D 1 z: (C, k, n) arrays."""
        n = self.scale.shape[1]
        known = self.weighted.reshape(-1, n), *vectors(self.scale, self.common.T), u.reshape(-1, n)
        compiled("contrasts.balanced")(*known, e.reshape(-1, n))
        record("matvec", e.size // n)

    def _conditioned(self, x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Add the T_c x_c, where T uses D alone, to `out`: (C, k, n), rows of each block."""
        out = np.zeros(x.shape) if out is None else out
        shrink = compiled("contrasts.shrunk")
        for covariance, scale, *part in zip(self.covariances, self.scale, self.inverses, x, out, strict=True):
            record("matvec", x.shape[1])
            shrink(*vectors(covariance.T, scale), *part)
        return out

    def marginals(self) -> np.ndarray:
        """Return the n blocks of S, where D T = I - E D^-1."""
        number, n = self.scale.shape
        variance = np.array([covariance.diagonal() for covariance in self.covariances])
        found = np.empty((n, number * number))
        known = self.weighted.reshape(-1, n), *vectors(self.scale, variance, self.common.T)
        compiled("contrasts.marginals")(*known, found)
        return found.reshape(n, number, number)

    def resistances(self) -> list[np.ndarray]:
        """Return E_c - E_c M^-1 E_c: two products of n rows each."""
        found = []
        for part in self.weighted:
            weighted = np.asfortranarray(linalg.symmetrized(part.T))
            half = linalg.triangular_product(self.common, weighted)
            found.append(np.asfortranarray(weighted - half.T @ half))
        return found


def _rows(x: np.ndarray, number: int) -> np.ndarray:
    """Copy the blocks of several flat vectors: (k, C n) to (C, k, n)."""
    return x.reshape(len(x), number, -1).swapaxes(0, 1).copy()


def _solved(inverse: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return ``(L L')^-1 b`` from L^-1: (n,) or (n, k)."""
    return linalg.triangular_product(inverse, linalg.triangular_product(inverse, b), transpose=True)


@dataclass(frozen=True, eq=False)
class DenseShrinkage:
    """S for any positive definite W = V V': V'^-1 B^-1 V' K with B = I + V' K V, a matrix of C n rows.

    `covariances` sequence of (n, n) arrays: the K_c, lower triangles; `root` (n, C, C): V, lower Cholesky factors of
    W's blocks; `factor` (C n, C n): lower Cholesky factor of B.
    """

    covariances: Sequence[np.ndarray]
    root: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, covariances: Sequence[np.ndarray], root: np.ndarray) -> DenseShrinkage | None:
        """Make S from lower triangles of the K_c and V; None where B is indefinite."""
        n, number = root.shape[:2]
        full = [linalg.symmetrized(covariance) for covariance in covariances]
        b = np.eye(number * n, order="F")
        for c in range(number):
            for d in range(c + 1):
                # V is lower triangular: the columns c and d have elements in common from the larger one on.
                terms = (root[:, e, c, None] * full[e] * root[:, e, d] for e in range(c, number))
                b[c * n : (c + 1) * n, d * n : (d + 1) * n] += sum(terms)
        try:
            return cls(covariances, root, linalg.cholesky(b, overwrite=True))
        except linalg.NotPositiveDefiniteError:
            return None

    @property
    def log_determinant(self) -> float:
        """The log-determinant of I + K W."""
        return linalg.log_determinant(self.factor)

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return S x: (C n,) or (C n, k), of the same shape."""
        n, number = self.root.shape[:2]
        parts = zip(self.covariances, x.reshape(number, n, *x.shape[1:]), strict=True)
        y = np.array([linalg.symmetric_product(covariance, part) for covariance, part in parts])
        scaled = np.einsum("icd,ci...->di...", self.root, y).reshape(x.shape)
        solved = linalg.cholesky_solve(self.factor, scaled).reshape(number, n, -1)
        transposed = self.root.swapaxes(1, 2)
        return np.linalg.solve(transposed, solved.swapaxes(0, 1)).swapaxes(0, 1).reshape(x.shape)

    def drawn(self, u: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Return u + S (V e - W u): (k, C n)."""
        n, number = self.root.shape[:2]
        blocks = [x.reshape(len(x), number, n) for x in (e, u)]
        whitened = blocks[0] - np.einsum("idc,kdi->kci", self.root, blocks[1])
        return u + self.product(np.einsum("icd,kdi->kci", self.root, whitened).reshape(u.shape).T).T

    def marginals(self) -> np.ndarray:
        """Return the n blocks of S = V'^-1 (I - B^-1) V^-1."""
        n, number = self.root.shape[:2]
        inverse = linalg.inverse(self.factor).reshape(number, n, number, n)
        sites = np.arange(n)
        # From the lower triangle, where the first block's index is at least the second's.
        rows, columns = np.tril_indices(number)
        inner = np.zeros((n, number, number))
        inner[:, rows, columns] = -inverse[rows, :, columns, :][:, sites, sites].T
        inner[:, columns, rows] = inner[:, rows, columns]
        inner += np.eye(number)
        left = np.linalg.solve(self.root.swapaxes(1, 2), inner)
        return np.linalg.solve(self.root.swapaxes(1, 2), left.swapaxes(1, 2))

    def resistances(self) -> list[np.ndarray]:
        """Return the blocks of V B^-1 V'."""
        n, number = self.root.shape[:2]
        inverse = linalg.symmetrized(linalg.inverse(self.factor)).reshape(number, n, number, n)
        found = []
        for c in range(number):
            # V is lower triangular.
            own = self.root[:, c, : c + 1]
            block = np.einsum("id,diej,je->ij", own, inverse[: c + 1, :, : c + 1], own, optimize=True)
            found.append(np.asfortranarray(block))
        return found
