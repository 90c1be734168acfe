"""The protocols of patterns of precisions, and of factors.

A pattern is what stays the same for all theta: where Q is not zero, and which elements of x each site looks at. The
values of Q on it are one array, of a shape that is the pattern's own.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from pmgp.core.markov.walks import Walk


class Factor(Protocol):
    """A Cholesky factor of a precision with some pattern."""

    @property
    def log_determinant(self) -> float:
        """Log-determinant of the precision."""
        ...

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Q^-1 b, of the shape of x."""
        ...

    def covariances(self) -> np.ndarray:
        """Elements of Q^-1 where Q is not zero, of the shape of Q's values."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draws from N(0, Q^-1): (size, *shape of x)."""
        ...

    def sample_from(self, normals: np.ndarray) -> np.ndarray:
        """Make draws from standard normals: (size, elements of x) -> (size, *shape of x)."""
        ...


class Pattern(Protocol):
    """The nonzero elements of Q and A."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of x."""
        ...

    @property
    def differentiated(self) -> bool:
        """Whether gradients are taken in Q's values."""
        ...

    @property
    def sites(self) -> int:
        """Number of sites n, which is the length of A x."""
        ...

    def factorize(self, values: np.ndarray) -> Factor | None:
        """Factorize Q; None where it is indefinite."""
        ...

    def upper(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Rows and columns of the upper triangle of Q, and the place of each element in its values.

        None where the values are not those of Q.
        """
        ...

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Values of Q + A' W A: those of Q, and (n,)."""
        ...

    def observe(self, x: np.ndarray) -> np.ndarray:
        """A x: (..., *shape of x) -> (..., n)."""
        ...

    def spread(self, sites: np.ndarray) -> np.ndarray:
        """A' b: (n,) -> shape of x."""
        ...

    def site_variances(self, covariances: np.ndarray) -> np.ndarray:
        """Diagonal of A Q^-1 A', from the elements of Q^-1 on the pattern: (n,)."""
        ...

    def product(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Q x."""
        ...

    def drawn_given(self, rng: np.random.Generator, values: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """A draw from N(0, Q^-1) given f = A x, or None where that takes a search."""
        ...

    def outer(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The symmetric part of x y' on the pattern, of the shape of Q's values."""
        ...

    def counted(self, values: np.ndarray) -> np.ndarray:
        """Values multiplied by how often each stands in the matrix: a sum with them is an inner product of matrices."""
        ...

    def walk(self, factor: Any, draws: int, width: int, kept: np.ndarray | None = None) -> Walk:
        """Particles that grow group by group, of some `width` sites each."""
        ...
