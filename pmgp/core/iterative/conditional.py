"""A Gaussian process at new inputs given noisy observations, from solutions of linear systems.

With C = K + diag(noise) and the covariance B between old and new inputs, the mean is B'C^-1 (y - m), and the covariance
K** - B'C^-1 B. A solution X of C X = B with the residual R gives B'X + X'R in place of B'C^-1 B. The difference
R'C^-1 R is of second order, and makes variances too large, by at most R'diag(noise)^-1 R.

A draw at new inputs is that of the prior there, f*, plus B'C^-1 (y - m - g), where g is the prior's draw of noisy
observations that belongs to f* (Matheron's rule; Wilson et al. 2020, Efficiently sampling functions). With the factor
L of K** and W = L^-1 B', these are f* = L e and g = W'e + h, where h ~ N(0, K - W'W + diag(noise)).
"""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.gaussian import product_with
from pmgp.core.iterative.preconditioners import Diagonal, Kernel
from pmgp.core.iterative.preconditioners.random_pivots import NEGLIGIBLE, random_pivots
from pmgp.core.iterative.settings import Iterative, suitable_rank
from pmgp.core.iterative.solvers import ConjugateGradients, Preconditioner, columnwise
from pmgp.core.iterative.square_root import NODES, correlated

# Numbers in arrays of n elements: for each column of a system, and for each column of the preconditioner's factor.
EACH_COLUMN, EACH_RANK = 16, 4
# The same for draws: for each of them, and for each column of both preconditioners.
EACH_DRAW, EACH_RANK_OF_DRAWS = NODES + 16, EACH_RANK + 2
# Bytes of tiles and of small arrays.
TILES = 3.5e6
# Variances that are this small, relative to those of the prior, are rounding errors.
ROUNDING = 1e-13
# A guess of the share of the prior's variance that is left, where the preconditioner gives no useful bound.
GUESS = 1e-2


class IterativeConditional:
    """The process given observations y - m with independent normal noise.

    - `kernel`: K, without the noise
    - `noise` (n,): variances, all positive
    - `solver`: tolerance, rank, cap

    Raises NotConvergedError, here and in its methods, if the iterations reach the cap.
    """

    def __init__(self, kernel: Kernel, noise: np.ndarray, solver: Iterative) -> None:
        self._kernel, self._noise, self._solver = kernel, noise, solver
        self._product, self._units = product_with(kernel.product, noise), np.sqrt(noise)[:, None]
        self._rank = suitable_rank(solver.rank, kernel.size)
        self._preconditioner = random_pivots(kernel, noise, self._rank, np.random.default_rng(0))

    def weights(self, y: np.ndarray, share: float = 1.0) -> np.ndarray:
        """Return C^-1 (y - m) for columns: (n, k) -> (n, k).

        The error of the mean is at most `share` times the tolerance, at any input.
        """
        solver = ConjugateGradients(share * self._solver.tolerance, self._solver.cap)
        return solver.solve(self._product, y, self._preconditioner, units=self._units).x

    def explained(self, between: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Return the variances B'C^-1 B; the process's standard deviations are accurate to the relative tolerance.

        `between` (n, m): B; `prior` (m,): variances before the observations.
        """
        tolerance = self._solver.tolerance
        solver = ConjugateGradients(np.sqrt(tolerance), self._solver.cap)
        # The preconditioner is at most C, so this is at most the variance that is left.
        bound = prior - columnwise(between, self._preconditioner.solve(between))
        expected = np.where(bound > ROUNDING * prior, bound, GUESS * prior)
        start = None
        while True:
            units = self._units * np.sqrt(expected)
            found = solver.solve(self._product, between, self._preconditioner, units=units, start=start)
            explained = columnwise(between, found.x) + columnwise(found.x, found.residual)
            left = np.maximum(prior - explained, ROUNDING * prior)
            error = np.square(found.residual / self._units).sum(axis=0)
            if np.all((error <= tolerance * left) | (left <= ROUNDING * prior)):
                return explained
            expected, start = np.minimum(expected, 0.5 * left), found.x

    def draws(
        self, rng: np.random.Generator, factor: np.ndarray, whitened: np.ndarray, y: np.ndarray, together: int
    ) -> np.ndarray:
        """Draw the process at new inputs, less its prior mean there: (m, k) for observations y - m of shape (n, k).

        A draw differs from an exact one by at most the tolerance, in posterior standard deviations at any input. Half
        of the tolerance is for the prior's draw, whose error is estimated.

        - `factor` (m, m): L
        - `whitened` (m, n): W
        - `together`: number of draws for which systems are solved at a time
        """
        given = _Given(self._kernel, whitened)
        preconditioner = given.preconditioner(self._noise, self._rank)
        product = product_with(given.product, self._noise)
        largest = 1.0 + float((given.diagonal() / self._noise).sum())
        tolerance, cap = 0.5 * self._solver.tolerance, self._solver.cap
        drawn = []
        for start in range(0, y.shape[1], together):
            part = y[:, start : start + together]
            e = rng.standard_normal((len(factor), part.shape[1]))
            w = preconditioner.sample(rng, part.shape[1])
            h = correlated(product, preconditioner, w, largest=largest, units=self._units, tolerance=tolerance, cap=cap)
            drawn.append(factor @ (e + whitened @ self.weights(part - whitened.T @ e - h, 0.5)))
        return np.hstack(drawn)


class _Given:
    """K given the process at new inputs, K - W'W; a `Kernel`.

    `whitened` (m, n): W
    """

    def __init__(self, kernel: Kernel, whitened: np.ndarray) -> None:
        self._kernel, self._whitened, self.size = kernel, whitened, kernel.size
        prior = kernel.diagonal()
        left = prior - np.einsum("ij,ij->j", whitened, whitened)
        self._diagonal = np.where(left > NEGLIGIBLE * prior, left, 0.0)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply by columns: (n, k) -> (n, k)."""
        return self._kernel.product(vectors) - self._whitened.T @ (self._whitened @ vectors)

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns: (m,) -> (n, m)."""
        return self._kernel.columns(points) - self._whitened.T @ self._whitened[:, points]

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        return self._kernel.block(where) - self._whitened[:, where].T @ self._whitened[:, where]

    def diagonal(self) -> np.ndarray:
        """Return the diagonal, zero where hardly more than a rounding error is left: (n,)."""
        return self._diagonal.copy()

    def preconditioner(self, noise: np.ndarray, rank: int) -> Preconditioner:
        """Return a preconditioner for the matrix plus noise: with random pivots, or the noise if nothing is left."""
        if not self._diagonal.any():
            return Diagonal(noise)
        return random_pivots(self, noise, rank, np.random.default_rng(0))


def columns_within(memory: float, size: int, rank: int | None, number: int) -> int:
    """Return the number of systems, at most `number`, that can be solved at a time in the given memory.

    Raises
    ------
    MemoryError
        If the memory does not suffice for one.
    """
    fixed, each = TILES + 8.0 * EACH_RANK * suitable_rank(rank, size) * size, 8.0 * EACH_COLUMN * size
    columns = int((memory - fixed) // each)
    if columns < 1:
        raise MemoryError(
            f"solutions for {size} points take {(fixed + each) / 1e6:.3g} MB with a preconditioner of rank "
            f"{suitable_rank(rank, size)}, and memory= allows {memory / 1e6:.3g}: allow more, or use a lower rank"
        )
    return min(columns, number)


def draws_within(memory: float, size: int, rank: int | None, number: int, draws: int) -> int:
    """Return the number of draws, at most `draws`, that can be made at a time at `number` new inputs together.

    Raises
    ------
    MemoryError
        If the memory does not suffice for one.
    """
    fixed = TILES + 8.0 * (EACH_RANK_OF_DRAWS * suitable_rank(rank, size) * size + number * (size + 3 * number))
    each = 8.0 * (EACH_DRAW * size + 4 * number)
    if fixed + each > memory:
        raise MemoryError(
            f"a draw at {number} new inputs together, given {size} old ones, takes {(fixed + each) / 1e6:.3g} MB, and "
            f"memory= allows {memory / 1e6:.3g}: allow more, draw at fewer inputs, or use joint=False"
        )
    return min(int((memory - fixed) // each), draws)
