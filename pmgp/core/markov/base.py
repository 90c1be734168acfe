"""Protocols of the patterns of precisions, and of their factors.

A pattern is the same for all theta: it says where Q is not zero, and on which elements of x each site depends. The
values of Q on it are one array, whose shape depends on the kind of pattern.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pmgp.core.markov.walks import Walk


class Factor(Protocol):
    """The Cholesky factor of a precision on a pattern."""

    @property
    def log_determinant(self) -> float:
        """Log-determinant of the precision."""

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return Q^-1 b, in the shape of x."""

    def covariances(self) -> np.ndarray:
        """Return the elements of Q^-1 where Q is not zero, in the shape of Q's values."""

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw from N(0, Q^-1): (size, *shape of x)."""

    def sample_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws from N(0, Q^-1): (size, elements of x) -> (size, *shape of x)."""


class Pattern(Protocol):
    """The nonzero elements of Q and A."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""

    @property
    def differentiated(self) -> bool:
        """Whether gradients are taken with respect to Q's values."""

    @property
    def sites(self) -> int:
        """Number of sites n, the length of A x."""

    def factorize(self, values: np.ndarray) -> Factor | None:
        """Return the factor of Q, or None if Q is indefinite."""

    def upper(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return rows and columns of the upper triangle of Q, and the position of each element in Q's values.

        None if the pattern's values are not elements of Q.
        """

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the values of Q + A' W A, given those of Q and the diagonal of W, (n,)."""

    def observe(self, x: np.ndarray) -> np.ndarray:
        """Return A x: (..., *shape of x) -> (..., n)."""

    def spread(self, sites: np.ndarray) -> np.ndarray:
        """Return A' b: (n,) -> shape of x."""

    def site_variances(self, covariances: np.ndarray) -> np.ndarray:
        """Return the diagonal of A Q^-1 A', given the elements of Q^-1 on the pattern: (n,)."""

    def product(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return Q x."""

    def drawn_given(self, rng: np.random.Generator, values: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """Draw from N(0, Q^-1) given f = A x; return None if that needs an iterative search."""

    def outer(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the symmetric part of x y' on the pattern, in the shape of Q's values."""

    def counted(self, values: np.ndarray) -> np.ndarray:
        """Return values times the number of times that each occurs in the matrix, for inner products of matrices."""

    def walk(self, factor: Any, draws: int, width: int, kept: np.ndarray | None = None) -> Walk:
        """Return particles that grow one group of about `width` sites or elements at a time."""
