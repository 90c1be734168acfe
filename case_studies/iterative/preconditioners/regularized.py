"""P = K + D + delta I, with inner conjugate gradients (Srinivasan et al. 2014; Cutajar et al. 2016, section 3.3.2)."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from pmgp.core.iterative.preconditioners import Identity, Kernel
from pmgp.core.iterative.solvers import ConjugateGradients, NotConvergedError

__all__ = ["Regularized", "UnknownLogDeterminantError"]

INNER = ConjugateGradients(tolerance=1e-4, cap=10_000)


class UnknownLogDeterminantError(ValueError):
    """A preconditioner has no log-determinant and no draws, which would need a factorization of the whole matrix."""


class Regularized:
    """The matrix itself with a larger diagonal, for `FlexibleConjugateGradients`.

    - `noise` (n,): positive numbers that are added to the diagonal of K
    - `excess`: delta; the article uses a hundred times the noise
    - `solver`: the inner solver; its tolerance is relative to the norm of the right-hand side
    - `cap`: after this number of products there is no further solution, but a `NotConvergedError`

    `products`: number of products with K so far.
    """

    def __init__(
        self,
        kernel: Kernel,
        noise: np.ndarray,
        excess: float,
        solver: ConjugateGradients = INNER,
        cap: float = np.inf,
    ) -> None:
        self._kernel, self._solver, self._cap = kernel, solver, cap
        self._diagonal = (noise + excess)[:, None]
        self.products = 0

    def solve(self, x: np.ndarray) -> np.ndarray:
        """Return P^-1 x: (n, k) -> (n, k)."""
        if self.products >= self._cap:
            raise NotConvergedError(f"inner solutions have taken {self.products} products, of {self._cap} at most")
        norms = np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny)
        solution = self._solver.solve(self._product, x, Identity(len(x)), units=norms)
        self.products += solution.products
        return solution.x

    def _product(self, x: np.ndarray) -> np.ndarray:
        return self._kernel.product(x) + self._diagonal * x

    @property
    def log_determinant(self) -> float:
        """Raise an error, since the log-determinant would need a factorization."""
        _refuse_log_determinant()

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Raise an error, since draws would need a factorization."""
        _refuse_log_determinant()


def _refuse_log_determinant() -> NoReturn:
    raise UnknownLogDeterminantError(
        "the log-determinant of a regularized preconditioner, and draws from N(0, P), would need a factorization of "
        "the whole of P, so it is only for solutions. Use random_pivots, or another preconditioner of low rank"
    )
