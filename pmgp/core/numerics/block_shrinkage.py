"""R = (K + W^-1)^-1 for block-diagonal K and W of two different shapes: what q needs in place of an inverse of K.

K has C blocks of shape (n, n), W has n blocks of shape (C, C) (`block_matrices.py`). With R, the covariance
(K^-1 + W)^-1 is K - K R K, and no inverse of K or of W is needed, so that W may be singular.

*Contrasts*: for W = D - D 1 (1' D 1)^-1 1' D, where D is diagonal and 1 stacks C identities of n rows, let
E_c = D_c^1/2 B_c^-1 D_c^1/2 with B_c = I + D_c^1/2 K_c D_c^1/2, and M their sum. Then
R = E - E 1 M^-1 1' E, and log|I + K W| = sum_c log|B_c| + log|M| - log|1' D 1|: Section 3.5 of Rasmussen and Williams
(2006), whose Algorithm 3.3 leaves out log|M|. Nothing of more than n rows is factorized.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from pmgp.core.numerics import linalg

__all__ = ["ContrastShrinkage", "DenseShrinkage", "Shrinkage"]


class Shrinkage(Protocol):
    """R = (K + W^-1)^-1."""

    @property
    def log_determinant(self) -> float:
        """Of I + K W."""
        ...

    def product(self, x: np.ndarray) -> np.ndarray:
        """R x: (C n,) or (C n, k), of the same shape."""
        ...

    def marginals(self) -> np.ndarray:
        """The n blocks of (K^-1 + W)^-1 that belong to one site each: (n, C, C)."""
        ...


@dataclass(frozen=True, eq=False)
class ContrastShrinkage:
    """R for W that acts on contrasts.

    Attributes
    ----------
    scale : (C, n) array
        D.
    weighted : list of (n, n) arrays
        The E_c, lower triangles.
    factor : (n, n) array
        Lower Cholesky factor of M.
    log_determinant : float
        Of I + K W.
    """

    scale: np.ndarray
    weighted: list[np.ndarray]
    factor: np.ndarray
    log_determinant: float

    @classmethod
    def of(cls, covariances: Sequence[np.ndarray], scale: np.ndarray) -> ContrastShrinkage | None:
        """From lower triangles of the K_c, and D of shape (C, n); None where a B_c is indefinite."""
        try:
            weighted, determinants = zip(*map(_weighted, covariances, scale), strict=True)
            # Above the diagonals stands what was in memory, which may be anything.
            with np.errstate(all="ignore"):
                factor = linalg.cholesky(np.asfortranarray(sum(weighted)), overwrite=True)
        except linalg.NotPositiveDefiniteError:
            return None
        log_determinant = sum(determinants) + linalg.log_determinant(factor) - float(np.log(scale.sum(axis=0)).sum())
        return cls(scale, list(weighted), factor, log_determinant)

    def product(self, x: np.ndarray) -> np.ndarray:
        """R x: (C n,) or (C n, k), of the same shape."""
        parts = np.split(x, len(self.weighted))
        solved = [linalg.symmetric_product(e, part) for e, part in zip(self.weighted, parts, strict=True)]
        common = linalg.cholesky_solve(self.factor, np.sum(solved, axis=0))
        return np.concatenate(
            [part - linalg.symmetric_product(e, common) for e, part in zip(self.weighted, solved, strict=True)]
        )

    def marginals(self) -> np.ndarray:
        """The n blocks of (K^-1 + W)^-1: of K - K E K + K E 1 M^-1 1' E K, where E K = I - E D^-1."""
        number, n = self.scale.shape
        found = np.empty((n, number, number))
        common = []
        for c, (e, d) in enumerate(zip(self.weighted, self.scale, strict=True)):
            shrunk = np.asfortranarray(np.eye(n) - linalg.symmetrized(e) / d)
            common.append(linalg.triangular_solve(self.factor, shrunk))
            for other in range(c + 1):
                found[:, c, other] = found[:, other, c] = np.einsum("ki,ki->i", common[c], common[other])
            found[:, c, c] += shrunk.diagonal() / d
        return found


def _weighted(covariance: np.ndarray, scale: np.ndarray) -> tuple[np.ndarray, float]:
    """E_c, its lower triangle, and log|B_c|."""
    root = np.sqrt(scale)
    factor = linalg.cholesky(linalg.scaled_plus_identity(covariance, root), overwrite=True)
    weighted = linalg.inverse(factor)
    # Above the diagonal stands what was in memory, which may be anything.
    with np.errstate(all="ignore"):
        weighted *= root[:, None]
        weighted *= root
    return weighted, linalg.log_determinant(factor)


@dataclass(frozen=True, eq=False)
class DenseShrinkage:
    """R for any positive definite W: S B^-1 S' with W = S S' and B = I + S' K S, a matrix of C n rows.

    Attributes
    ----------
    root : (n, C, C) array
        S, lower Cholesky factors of W's blocks.
    factor : (C n, C n) array
        Lower Cholesky factor of B.
    """

    root: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, covariances: Sequence[np.ndarray], root: np.ndarray) -> DenseShrinkage | None:
        """From lower triangles of the K_c, and S; None where B is indefinite."""
        n, number = root.shape[:2]
        full = [linalg.symmetrized(covariance) for covariance in covariances]
        b = np.eye(number * n, order="F")
        for c in range(number):
            for d in range(c + 1):
                # S is lower triangular: the columns c and d have elements in common from the larger one on.
                terms = (root[:, e, c, None] * full[e] * root[:, e, d] for e in range(c, number))
                b[c * n : (c + 1) * n, d * n : (d + 1) * n] += sum(terms)
        try:
            return cls(root, linalg.cholesky(b, overwrite=True))
        except linalg.NotPositiveDefiniteError:
            return None

    @property
    def log_determinant(self) -> float:
        """Of I + K W."""
        return linalg.log_determinant(self.factor)

    def product(self, x: np.ndarray) -> np.ndarray:
        """R x: (C n,) or (C n, k), of the same shape."""
        solved = linalg.cholesky_solve(self.factor, self._scaled(x, "icd,ci...->di..."))
        return self._scaled(solved, "icd,di...->ci...")

    def _scaled(self, x: np.ndarray, subscripts: str) -> np.ndarray:
        n, number = self.root.shape[:2]
        return np.einsum(subscripts, self.root, x.reshape(number, n, *x.shape[1:])).reshape(x.shape)

    def marginals(self) -> np.ndarray:
        """The n blocks of (K^-1 + W)^-1 = S'^-1 (I - B^-1) S^-1."""
        n, number = self.root.shape[:2]
        inverse = linalg.inverse(self.factor).reshape(number, n, number, n)
        sites = np.arange(n)
        # By the lower triangle: the first block's index is at least the second's.
        rows, columns = np.tril_indices(number)
        inner = np.zeros((n, number, number))
        inner[:, rows, columns] = -inverse[rows, :, columns, :][:, sites, sites].T
        inner[:, columns, rows] = inner[:, rows, columns]
        inner += np.eye(number)
        left = np.linalg.solve(self.root.swapaxes(1, 2), inner)
        return np.linalg.solve(self.root.swapaxes(1, 2), left.swapaxes(1, 2))
