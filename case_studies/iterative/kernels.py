"""Covariance matrices for the study: whole, half of them, sparse, or a factor; and products that solvers share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock

import numpy as np
from scipy import sparse
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.iterative.preconditioners.random_pivots import partial_cholesky
from pmgp.interface.covariance.kept import Bands

__all__ = ["Factorized", "Shared", "Sparse", "Stored", "Tiles", "side_by_side", "squared_exponential"]

SMALLEST = 1e-300
"""Smaller elements are set to zero, since arithmetic with numbers close to the smallest one is slow."""
NEGLIGIBLE = 1e-22
"""Smaller elements are not stored where few are larger: a million of them are less than the diagonal's rounding."""
FEW = 0.1
"""Largest share of elements for which K is stored as a sparse matrix."""
LEFT = 1e-8
"""Largest trace of what a factor of low rank leaves of K: a hundredth of the smallest variance of the noise."""
SMALLEST_PIVOT = 1e-12
"""Pivots are added to a factor while what is left of a variance is larger."""
SHARE = 1 / 16
"""Largest rank of a factor for n points, over n: a product then takes a quarter of the operations at most."""
ROWS = 512
"""Rows that are computed at a time, and that stand for all where the share of large elements is estimated."""


class Stored:
    """K as a matrix, for few points."""

    def __init__(self, K: np.ndarray) -> None:
        self._K, self.size = K, len(K)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        return self._K @ vectors

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Columns of K."""
        return self._K[:, points]

    def block(self, where: slice) -> np.ndarray:
        """A square block of K."""
        return self._K[where][:, where]

    def diagonal(self) -> np.ndarray:
        """The diagonal of K."""
        return self._K.diagonal().copy()


class Elements:
    """K = exp(-|x - x'|^2 / 2), some elements at a time; `X` (n, d): inputs in units of the length-scale."""

    def __init__(self, X: np.ndarray) -> None:
        self._X, self.size = X, len(X)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        parts = (slice(start, start + ROWS) for start in range(0, self.size, ROWS))
        return np.vstack([_covariance(self._X[rows], self._X) @ vectors for rows in parts])

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Columns of K."""
        return _covariance(self._X, self._X[points])

    def block(self, where: slice) -> np.ndarray:
        """A square block of K."""
        return _covariance(self._X[where], self._X[where])

    def diagonal(self) -> np.ndarray:
        """The diagonal of K."""
        return np.ones(self.size)


class Tiles(Elements):
    """The same K, of which half is stored: 4 n^2 bytes."""

    def __init__(self, X: np.ndarray) -> None:
        super().__init__(X)
        self._bands = Bands.of(lambda rows, columns: _covariance(X[rows], X[columns]), len(X))

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        return self._bands.product(vectors)


class Sparse(Elements):
    """The same K, with only the elements stored that are at least `NEGLIGIBLE`."""

    def __init__(self, X: np.ndarray) -> None:
        super().__init__(X)
        # Large elements of neighbouring rows are in the same columns, so that their factors stay in the cache.
        self._order = cKDTree(X).indices
        near = X[self._order]
        parts = [_large(near[start : start + ROWS], near) for start in range(0, len(X), ROWS)]
        self._K = sparse.vstack(parts, format="csr")

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        found = np.empty(vectors.shape)
        found[self._order] = self._K @ vectors[self._order]
        return found


class Factorized(Elements):
    """The same K as F'F: the difference is positive semidefinite, with a trace of `LEFT` at most.

    `F` (m, n): rows of a Cholesky factorization of K.
    """

    def __init__(self, X: np.ndarray, F: np.ndarray) -> None:
        super().__init__(X)
        self._F = F

    @classmethod
    def of(cls, X: np.ndarray) -> Factorized | None:
        """Return K, or None if it takes too many rows; `X` (n, d) in units of the length-scale."""
        _, F = partial_cholesky(Elements(X), int(SHARE * len(X)), np.random.default_rng(0), SMALLEST_PIVOT)
        left = len(X) - np.square(F).sum(axis=1).cumsum()
        return cls(X, F[: 1 + np.argmax(left <= LEFT)]) if left[-1] <= LEFT else None

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns."""
        return ((vectors.T @ self._F.T) @ self._F).T


def squared_exponential(X: np.ndarray) -> Elements:
    """K = exp(-|x - x'|^2 / 2), stored in the way that makes products fast; `X` (n, d) in units of the length-scale."""
    some = X[:: -(-len(X) // ROWS)]
    if _large(some, X).nnz <= FEW * len(some) * len(X):
        return Sparse(X)
    return Factorized.of(X) or Tiles(X)


def _large(X: np.ndarray, Z: np.ndarray) -> sparse.csr_array:
    K = _covariance(X, Z)
    K[K < NEGLIGIBLE] = 0.0
    return sparse.csr_array(K)


def _covariance(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    K = cdist(X, Z, "sqeuclidean")
    K *= -0.5
    np.exp(K, out=K)
    K[K < SMALLEST] = 0.0
    return K


class Shared:
    """A kernel for several solvers, each in a thread: a product waits until all of them have asked for one.

    One thread runs at a time, so that together they take one core. `solvers`: their number.
    """

    def __init__(self, kernel: Kernel, solvers: int) -> None:
        self._kernel, self._running, self.size = kernel, solvers, kernel.size
        self._asked: list[tuple[np.ndarray, Future]] = []
        self._turn, self._stopped = Lock(), False
        self.columns, self.block, self.diagonal = kernel.columns, kernel.block, kernel.diagonal

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """K times columns, computed together with the products for the other solvers."""
        if self._stopped:
            raise InterruptedError("another solver has failed, or the run was interrupted")
        found: Future = Future()
        self._asked.append((vectors, found))
        self._serve()
        self._turn.release()
        try:
            return found.result()
        finally:
            self._turn.acquire()

    def run[Result](self, solve: Callable[[], Result]) -> Result:
        """Return what one of the solvers finds."""
        with self._turn:
            try:
                return solve()
            finally:
                self._running -= 1
                self._serve()

    def stop(self) -> None:
        """Let all solvers fail at their next product."""
        self._stopped = True

    def _serve(self) -> None:
        if not self._asked or len(self._asked) < self._running:
            return
        asked, self._asked = self._asked, []
        places = np.cumsum([vectors.shape[1] for vectors, _ in asked])[:-1]
        try:
            products = np.split(self._kernel.product(np.hstack([vectors for vectors, _ in asked])), places, axis=1)
        except Exception as error:
            for _, found in asked:
                found.set_exception(error)
            return
        for (_, found), product in zip(asked, products, strict=True):
            found.set_result(product)


def side_by_side[Result](kernel: Kernel, solvers: list[Callable[[Kernel], Result]]) -> list[Result]:
    """Return what solvers find, each of which takes a kernel, with products that they share.

    A product with ten columns takes little longer than one with a single column, since K is read once.
    """
    shared = Shared(kernel, len(solvers))
    with ThreadPoolExecutor(len(solvers)) as threads:
        try:
            tasks = [threads.submit(shared.run, lambda solve=solve: solve(shared)) for solve in solvers]
            return [task.result() for task in tasks]
        except BaseException:
            shared.stop()
            raise
