"""Preconditioned conjugate gradients for many right-hand sides at once.

This is algorithm 1 of Cutajar, Osborne, Cunningham and Filippone (2016), Preconditioning kernel matrices, with the
denominator of alpha and the signs of Golub and Van Loan, which are misprinted in the article.

A column whose residual in the recursion has converged is checked with b - C x, and continues from there if that has
not: the recursion's residual keeps falling when rounding, or tiles in single precision, keep x from improving.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pmgp.core.iterative.solvers.base import (
    IndefiniteMatrixError,
    NotConvergedError,
    Preconditioner,
    Product,
    columnwise,
)
from pmgp.core.iterative.solvers.watching import tell
from pmgp.core.numerics.arrays import check_tolerance, check_whole

# A pass that reduces a residual by less than this factor has stagnated.
STAGNATION = 0.5


class Solution(NamedTuple):
    """Solutions of C x = b for the columns of b.

    - `x` (n, k)
    - `residual` (n, k): b - C x, recomputed for the returned solution
    - `norms` (k,): norms of the residuals' columns, in the given units
    - `iterations` (k,) of int: number of iterations of each column in all passes
    - `products`: number of products of C with columns
    - `steps`, `ratios` (i, k): alpha and beta of each iteration of the first pass, with NaN after a column's last one.
      They make up the matrix of Lanczos' recursion. They are empty if a start was given
    """

    x: np.ndarray
    residual: np.ndarray
    norms: np.ndarray
    iterations: np.ndarray
    products: int
    steps: np.ndarray
    ratios: np.ndarray


class Conjugate:
    """p = z + beta p with beta = r'z / (old r'z), for a preconditioner that is the same in all iterations."""

    def __init__(self) -> None:
        self._last: np.ndarray | None = None
        self._before = np.ones(1)

    def following(self, residual: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the next directions and their ratios."""
        now = columnwise(residual, z)
        ratio = np.zeros_like(now) if self._last is None else now / self._before
        direction = z if self._last is None else z + ratio * self._last
        self._last, self._before = direction, now
        return direction, ratio

    def keep(self, columns: np.ndarray) -> None:
        """Keep only the given columns."""
        assert self._last is not None
        self._last, self._before = self._last[:, columns], self._before[columns]


@dataclass(frozen=True)
class ConjugateGradients:
    """A solver of linear systems with preconditioned conjugate gradients.

    Parameters
    ----------
    tolerance : float
        The largest norm of a column of (b - C x) / units in a solution.
    cap : int
        Largest number of iterations for each column.

    Notes
    -----
    For C = K + diag(noise), b = y - m and units sqrt(noise), the norm bounds the error of the posterior mean of f
    anywhere, in posterior standard deviations: with e = K C^-1 r the error of the mean, and the posterior covariance
    S = K C^-1 diag(noise), e'S^-1 e = r'diag(noise)^-1 K C^-1 r, which is at most r'diag(noise)^-1 r.

    Examples
    --------
    >>> import numpy as np
    >>> from pmgp.core.iterative.preconditioners import Identity
    >>> C = np.diag([1.0, 2.0, 4.0])
    >>> solution = ConjugateGradients(1e-10).solve(C.__matmul__, np.ones((3, 1)), Identity(3))
    >>> bool(np.allclose(solution.x[:, 0], [1.0, 0.5, 0.25]))
    True
    """

    tolerance: float = 1e-2
    cap: int = 1000

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)
        check_whole(cap=self.cap)

    def solve(
        self,
        product: Product,
        b: np.ndarray,
        preconditioner: Preconditioner,
        *,
        units: np.ndarray | float = 1.0,
        start: np.ndarray | None = None,
        checked_by: Product | None = None,
    ) -> Solution:
        """Return the solution of C x = b.

        Parameters
        ----------
        product : callable
            The product of C with columns.
        b : (n, k) array
        preconditioner : Preconditioner
            One whose solutions are linear: it does not iterate to a tolerance.
        units : float, or array that broadcasts to (n, k)
            The units in which residuals are measured.
        start : (n, k) array, optional
            Solutions of a similar system; zero by default.
        checked_by : callable, optional
            The product for recomputing residuals, if `product` is less accurate, as in single precision.

        Raises
        ------
        NotConvergedError
            At the cap, or if rounding errors keep the solution from reaching the tolerance.
        IndefiniteMatrixError
            If C or the preconditioner is not positive definite.
        ValueError
            If b is not finite or not of shape (n, k).
        """
        _refuse_right_hand_side(b)
        state = _Search(self, product, preconditioner, checked_by or product, b, np.broadcast_to(units, b.shape))
        return state.from_start(start)


def _refuse_right_hand_side(b: np.ndarray) -> None:
    if b.ndim != 2:
        raise ValueError(f"right-hand sides must be the columns of an (n, k) array, not of shape {b.shape}")
    if not np.isfinite(b).all():
        raise ValueError("right-hand sides must be finite")


class _Search:
    """Passes of the recursion, each from the residual of the passes before it."""

    def __init__(
        self,
        solver: ConjugateGradients,
        product: Product,
        preconditioner: Preconditioner,
        exact: Product,
        b: np.ndarray,
        units: np.ndarray,
    ) -> None:
        self._solver, self._product, self._preconditioner = solver, product, preconditioner
        self._exact, self._b, self._units = exact, b, units
        self._x = np.zeros(b.shape)
        self._residual = b.copy()
        self._iterations = np.zeros(b.shape[1], dtype=int)
        self._products = 0

    def from_start(self, start: np.ndarray | None) -> Solution:
        """Return the solution after passes until all columns have converged."""
        history = np.empty((2, 0, self._b.shape[1]))
        if start is not None:
            self._x[:] = start
            self._check(slice(None))
        norms = _norms(self._residual, self._units)
        while (left := np.flatnonzero(~(norms <= self._solver.tolerance))).size:
            found = self._one_pass(left)
            if not history.size and start is None:
                history = found.history(left, self._b.shape[1])
            before, norms[left] = norms[left], _norms(self._residual[:, left], self._units[:, left])
            _refuse_failure(self._solver, norms[left], before, self._iterations[left])
        return Solution(self._x, self._residual, norms, self._iterations, self._products, *history)

    def _one_pass(self, left: np.ndarray) -> _Pass:
        """Improve columns by one pass of the recursion, recompute their residuals, and return the pass."""
        found = _Pass(self._product, self._preconditioner, self._residual[:, left], self._units[:, left])
        found.run(self._solver.tolerance, self._solver.cap - int(self._iterations[left].max()))
        self._x[:, left] += found.x
        self._iterations[left] += found.iterations
        self._products += int(found.iterations.max())
        self._check(left)
        return found

    def _check(self, columns: np.ndarray | slice) -> None:
        self._residual[:, columns] = self._b[:, columns] - self._exact(self._x[:, columns])
        self._products += 1


def _norms(residual: np.ndarray, units: np.ndarray) -> np.ndarray:
    return np.linalg.norm(residual / units, axis=0)


def _refuse_failure(solver: ConjugateGradients, norms: np.ndarray, before: np.ndarray, iterations: np.ndarray) -> None:
    failed = ~(norms <= solver.tolerance)
    stagnated = failed & ~(norms <= STAGNATION * before)
    capped = failed & (iterations >= solver.cap)
    if not (stagnated | capped).any():
        return
    said = (
        f"conjugate gradients have not converged: after {iterations[failed].max()} iterations the residual of "
        f"{failed.sum()} right-hand sides is up to {norms[failed].max():.3g}, and the tolerance is "
        f"{solver.tolerance:.3g}. There is no solution. "
    )
    if capped.any():
        raise NotConvergedError(
            said + f"Use a preconditioner of higher rank, a cap over {solver.cap}, or a Cholesky factorization"
        )
    raise NotConvergedError(
        said + "Rounding stops it: use a larger tolerance, products in double precision, or more noise on the diagonal"
    )


class _Pass:
    """One recursion from x = 0, whose products leave out columns that have converged."""

    def __init__(self, product: Product, preconditioner: Preconditioner, b: np.ndarray, units: np.ndarray) -> None:
        self._product, self._preconditioner, self._directions = product, preconditioner, Conjugate()
        self._residual, self._units = b.copy(), units
        self.x = np.zeros(b.shape)
        self.iterations = np.zeros(b.shape[1], dtype=int)
        self._active = np.arange(b.shape[1])
        self._steps: list[np.ndarray] = []
        self._ratios: list[np.ndarray] = []

    def run(self, tolerance: float, cap: int) -> None:
        """Iterate until all columns have converged, or up to the cap."""
        for _ in range(cap):
            self._step()
            norms = _norms(self._residual, self._units)
            tell(len(self._steps), norms.max(), tolerance)
            left = ~(norms <= tolerance)
            if not left.all():
                self._active, self._residual = self._active[left], self._residual[:, left]
                self._units = self._units[:, left]
                self._directions.keep(left)
            if not left.any():
                break

    def _step(self) -> None:
        """Make one iteration of algorithm 1, for the columns that have not converged."""
        z = self._preconditioner.solve(self._residual)
        direction, ratio = self._directions.following(self._residual, z)
        image = self._product(direction)
        curvature, slope = columnwise(direction, image), columnwise(direction, self._residual)
        refuse_indefinite(curvature, slope)
        step = slope / curvature
        self.x[:, self._active] += step * direction
        self._residual = self._residual - step * image
        self.iterations[self._active] += 1
        self._note(step, ratio)

    def _note(self, step: np.ndarray, ratio: np.ndarray) -> None:
        for values, row in ((self._steps, step), (self._ratios, ratio)):
            values.append(np.full(self.x.shape[1], np.nan))
            values[-1][self._active] = row

    def history(self, columns: np.ndarray, size: int) -> np.ndarray:
        """Return alpha and beta of all iterations, in arrays of `size` columns."""
        found = np.full((2, len(self._steps), size), np.nan)
        found[:, :, columns] = self._steps, self._ratios
        return found


def refuse_indefinite(curvature: np.ndarray, slope: np.ndarray) -> None:
    """Raise IndefiniteMatrixError unless p'C p and z'r are positive for all columns."""
    if np.all(curvature > 0.0) and np.all(slope > 0.0):
        return
    if not np.isfinite(curvature).all() or not np.isfinite(slope).all():
        raise IndefiniteMatrixError("the products with the matrix, or the preconditioner's solutions, are not finite")
    if np.all(curvature > 0.0):
        raise IndefiniteMatrixError(
            "the preconditioner is not symmetric and positive definite: z'r is not positive for a residual r and its "
            "preconditioned z"
        )
    raise IndefiniteMatrixError(
        f"the matrix is not positive definite: p'C p is {curvature.min():.3g} for a direction p. Add noise or a jitter "
        "to its diagonal, or use products in double precision"
    )
