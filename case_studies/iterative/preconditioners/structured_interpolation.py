"""P = W K_UU W' + D, where K_UU on a grid is a Kronecker product (Wilson and Nickisch 2015; Cutajar et al., 3.2.3).

W maps each input to the nearest point of the grid, as in the article. Inner conjugate gradients solve systems with P.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import cholesky

from case_studies.iterative.preconditioners.inner import INNER, refuse_log_determinant
from pmgp.core.iterative.preconditioners import Diagonal
from pmgp.core.iterative.preconditioners.low_rank import JITTER
from pmgp.core.iterative.solvers import ConjugateGradients

__all__ = ["StructuredInterpolation"]


class StructuredInterpolation:
    """Structured kernel interpolation, for `FlexibleConjugateGradients`.

    - `nearest` (n, d) of int: the index of the grid's coordinate that is nearest to each input, in each dimension
    - `factors` sequence of (g, g) arrays: the kernel's factor in each dimension, on that dimension's coordinates; one
      of them includes the variance
    - `noise` (n,): positive numbers that are added to the diagonal
    - `solver`: the inner solver; its tolerance is relative to the norm of the right-hand side
    """

    def __init__(
        self, nearest: np.ndarray, factors: Sequence[np.ndarray], noise: np.ndarray, solver: ConjugateGradients = INNER
    ) -> None:
        self._shape = tuple(len(factor) for factor in factors)
        self._cell = np.ravel_multi_index(tuple(nearest.T), self._shape)
        self._factors, self._noise, self._solver = factors, noise[:, None], solver
        self._base = Diagonal(noise)

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return P^-1 x: (n, k) -> (n, k)."""
        norms = np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny)
        return self._solver.solve(self.product, x, self._base, units=norms).x

    def product(self, x: np.ndarray) -> np.ndarray:
        """Return P x: (n, k) -> (n, k)."""
        on_grid = np.zeros((int(np.prod(self._shape)), x.shape[1]))
        np.add.at(on_grid, self._cell, x)
        return self._kronecker(self._factors, on_grid)[self._cell] + self._noise * x

    def _kronecker(self, factors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
        """Return the Kronecker product of factors times x, computed one dimension after another."""
        values = x.reshape(*self._shape, -1)
        for axis, factor in enumerate(factors):
            values = np.moveaxis(np.tensordot(factor, values, axes=(1, axis)), 0, axis)
        return values.reshape(x.shape)

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return draws from N(0, P): (n, size)."""
        roots = [cholesky(factor + JITTER * np.eye(len(factor)), lower=True) for factor in self._factors]
        normals = rng.standard_normal((int(np.prod(self._shape)), size))
        return self._kronecker(roots, normals)[self._cell] + self._base.sample(rng, size)

    @property
    def log_determinant(self) -> float:
        """Raise an error, since the log-determinant would need a factorization."""
        refuse_log_determinant("structured interpolation")
