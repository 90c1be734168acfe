"""P = K + D + delta I, solved by conjugate gradients inside (Srinivasan et al. 2014; Cutajar et al. 2016, 3.3.2)."""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import INNER, Kernel, refuse_log_determinant
from pmgp.core.iterative.preconditioners.identity import Identity
from pmgp.core.iterative.solvers import ConjugateGradients


class Regularized:
    """The matrix itself with more on its diagonal; for `FlexibleConjugateGradients`.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Added to the diagonal of K, positive.
    excess : float
        Delta; the article takes a hundred times the noise.
    solver : ConjugateGradients
        The inner one; its tolerance is relative to the norm of the right-hand side.

    Attributes
    ----------
    products : int
        Products with K so far.
    """

    iterated = True

    def __init__(
        self,
        kernel: Kernel,
        noise: np.ndarray,
        excess: float,
        solver: ConjugateGradients = INNER,
    ) -> None:
        self._kernel, self._solver = kernel, solver
        self._diagonal = (noise + excess)[:, None]
        self.products = 0

    def solve(self, x: np.ndarray) -> np.ndarray:
        """P^-1 x: (n, k) -> (n, k)."""
        norms = np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny)
        solution = self._solver.solve(self._product, x, Identity(len(x)), units=norms)
        self.products += solution.products
        return solution.x

    def _product(self, x: np.ndarray) -> np.ndarray:
        return self._kernel.product(x) + self._diagonal * x

    @property
    def log_determinant(self) -> float:
        """Refused: it would take a factorization."""
        refuse_log_determinant("regularized")

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Refused: draws would take a factorization."""
        refuse_log_determinant("regularized")
