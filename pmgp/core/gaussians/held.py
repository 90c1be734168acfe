"""Priors that hold covariance matrices, and priors with sites over several values: what conditioning needs of them."""

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


class CoupledPrior(Prior):
    """N(f|m, K) with n sites over C values each, which are g = E f: the n first values, then the n second ones.

    `smallest_cavity`: smallest precision of a cavity, relative to q's marginal precision; below, it is a rounding
    error.
    """

    smallest_cavity: float = 1e-8

    @property
    def in_blocks(self) -> bool:
        """True: the precisions of sites are matrices."""
        return True

    @property
    @abstractmethod
    def sites(self) -> int:
        """Number n of sites."""

    @property
    @abstractmethod
    def site_variance(self) -> np.ndarray:
        """Variances of g: (C n,)."""

    @abstractmethod
    def at_sites(self, f: np.ndarray) -> np.ndarray:
        """Return E f: (..., size) -> (..., C n)."""

    @abstractmethod
    def from_sites(self, b: np.ndarray) -> np.ndarray:
        """Return E' b: (C n,) -> (size,)."""

    @abstractmethod
    def shrunk(self, precision: BlockMatrix) -> Shrinkage | None:
        """Return (K^-1 + E'WE)^-1 for a `BlockMatrix` W; None if that is not possible."""


class HeldCovariances(CoupledPrior):
    """N(f|m, K) of several independent latent vectors, with matrices for their covariances; E is the identity.

    `parts`: priors of the vectors, of n values each.
    """

    parts: Sequence[HeldCovariance]

    @property
    def sites(self) -> int:
        """Number n of elements of each vector."""
        return self.parts[0].size

    @property
    def site_variance(self) -> np.ndarray:
        """Prior variances: (C n,)."""
        return self.variance

    def at_sites(self, f: np.ndarray) -> np.ndarray:
        """Return f: (..., C n)."""
        return f

    def from_sites(self, b: np.ndarray) -> np.ndarray:
        """Return b: (C n,)."""
        return b

    def shrunk(self, precision: BlockMatrix) -> Shrinkage | None:
        """Return (K^-1 + W)^-1 for a `BlockMatrix` W."""
        return precision.shrinkage(self.covariances)

    @property
    def covariances(self) -> list[np.ndarray]:
        """The K_c, lower triangles: C arrays of shape (n, n)."""
        return [part.covariance for part in self.parts]
