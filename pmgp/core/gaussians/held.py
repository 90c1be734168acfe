"""Priors that hold their covariances as matrices: the part of them that conditioning on sites uses."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from pmgp.core.gaussians.base import Prior
from pmgp.core.numerics.block_matrices import BlockMatrix
from pmgp.core.numerics.block_shrinkage import Shrinkage


class HeldCovariance(Prior):
    """N(f|m, K) with K as a matrix.

    `covariance` (n, n): lower triangle of K, in Fortran order.
    """

    covariance: np.ndarray

    def shrunk(self, precision: BlockMatrix) -> Shrinkage | None:
        """Return (K^-1 + W)^-1 for a `BlockMatrix` W."""
        return precision.shrinkage([self.covariance])

    @property
    @abstractmethod
    def factor(self) -> np.ndarray:
        """Lower Cholesky factor of K: (n, n)."""


class HeldCovariances(Prior):
    """N(f|m, K) of several independent latent vectors, with matrices for their covariances.

    `parts`: priors of the vectors, of n values each.
    """

    parts: Sequence[HeldCovariance]

    @property
    def sites(self) -> int:
        """Number n of elements of each vector."""
        return self.parts[0].size

    def shrunk(self, precision: BlockMatrix) -> Shrinkage | None:
        """Return (K^-1 + W)^-1 for a `BlockMatrix` W."""
        return precision.shrinkage(self.covariances)

    @property
    def covariances(self) -> list[np.ndarray]:
        """The K_c, lower triangles: C arrays of shape (n, n)."""
        return [part.covariance for part in self.parts]
