"""A Gaussian process at new inputs given noisy observations, from solutions of linear systems.

With C = K + diag(noise) and the covariance B between old and new inputs, the mean is B'C^-1 (y - m), and the covariance
K** - B'C^-1 B. A solution X of C X = B with the residual R gives B'X + X'R in place of B'C^-1 B. The difference
R'C^-1 R is of second order, and makes variances too large, by at most R'diag(noise)^-1 R.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.iterative.gaussian import product_with
from pmgp.core.iterative.preconditioners import Kernel
from pmgp.core.iterative.preconditioners.random_pivots import random_pivots
from pmgp.core.iterative.settings import Iterative, suitable_rank
from pmgp.core.iterative.solvers import ConjugateGradients, columnwise

# Numbers in arrays of n elements: for each column of a system, and for each column of the preconditioner's factor.
EACH_COLUMN, EACH_RANK = 16, 4
# Bytes of tiles and of small arrays.
TILES = 3.5e6
# Variances that are this small, relative to those of the prior, are rounding errors.
ROUNDING = 1e-13
# A guess of the share of the prior's variance that is left, where the preconditioner does not tell.
GUESS = 1e-2


class Solved(NamedTuple):
    """C X = B for m new inputs.

    `variance` (m,): B'C^-1 B for each; `solutions`, `residual` (n, m): X and R.
    """

    variance: np.ndarray
    solutions: np.ndarray
    residual: np.ndarray


class IterativeConditional:
    """The process given observations y - m with independent normal noise.

    - `kernel`: K, without the noise
    - `noise` (n,): variances, all positive
    - `solver`: tolerance, rank, cap

    Raises NotConvergedError, here and in its methods, if the iterations reach the cap.
    """

    def __init__(self, kernel: Kernel, noise: np.ndarray, solver: Iterative) -> None:
        self._product = product_with(kernel.product, noise)
        self._units, self._solver = np.sqrt(noise)[:, None], solver
        rank = suitable_rank(solver.rank, kernel.size)
        self._preconditioner = random_pivots(kernel, noise, rank, np.random.default_rng(0))

    def weights(self, y: np.ndarray) -> np.ndarray:
        """Return C^-1 (y - m): (n,) -> (n,). The error of the mean is at most the tolerance, at any input."""
        solver = ConjugateGradients(self._solver.tolerance, self._solver.cap)
        return solver.solve(self._product, y[:, None], self._preconditioner, units=self._units).x[:, 0]

    def solved(self, between: np.ndarray, prior: np.ndarray) -> Solved:
        """Solve systems for new inputs, with standard deviations to the relative tolerance.

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
                return Solved(explained, found.x, found.residual)
            expected, start = np.minimum(expected, 0.5 * left), found.x


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
