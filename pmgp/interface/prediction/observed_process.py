"""The process behind multivariate normal observations, such as those of `pymc.gp.Marginal`, at new inputs given theta.

The covariance of the observations includes noise. An observation at a new input is independent of the others given the
process, so the same graph at old and new inputs gives the process too, once the noise at new inputs is taken off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np
from pytensor.tensor.variable import TensorVariable
from scipy.linalg import solve_triangular

from pmgp.core.iterative.conditional import IterativeConditional, columns_within, draws_within
from pmgp.core.iterative.settings import Iterative
from pmgp.interface.covariance.executor import MomentParts, bands
from pmgp.interface.covariance.kept import Products, bytes_of
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.prediction.joint_covariance import Parts
from pmgp.interface.prediction.known_process import KnownProcess
from pmgp.interface.prediction.latent_process import Conditional, LatentProcess, factor

# Number of inputs whose noise is found at a time.
TOGETHER = 256
# The share of a solver's memory that the elements of K may take.
SHARE = 0.5


class ObservedProcess(LatentProcess):
    """The process of observed values with independent noise, which depends on the free variables `theta`.

    With `solver`, linear systems are solved iteratively, and otherwise with a Cholesky factorization.
    """

    _remedy = (
        "the deviations of noise that each observation has can be given with a latent process, which is integrated out "
        'as well: f = pm.gp.Latent(...).prior("f", X=X, reparameterize=False) and pm.Normal("y", f, deviations, '
        "observed=y)"
    )

    def __init__(
        self,
        observed: TensorVariable,
        theta: list[TensorVariable],
        known: Sequence[KnownProcess] = (),
        solver: Iterative | None = None,
    ) -> None:
        super().__init__(observed, theta, known=known)
        self._solver = solver

    def compile(self, Xnew: np.ndarray, theta: list[np.ndarray]) -> None:
        """Compile functions for inputs of this kind."""
        super().compile(Xnew, theta)
        if self._solver is not None and (self._moments is None or self._moments.whole):
            raise ModelError(
                f"the covariance of {self._f.name!r} cannot be computed in parts, so linear systems with it cannot be "
                'solved iteratively: use solver="cholesky"'
            )

    def block_size(self, number: int) -> int:
        """Return the number of new inputs, out of `number`, to handle at a time."""
        if self._solver is None:
            return super().block_size(number)
        return columns_within(_left_by_K(self._solver, self.size), self.size, self._solver.rank, number)

    def noise(self, theta: list[np.ndarray], X: np.ndarray) -> np.ndarray:
        """Return the variances of the noise at inputs: the variance less the covariance with another copy."""
        assert self._moments is not None
        found = []
        for start in range(0, len(X), TOGETHER):
            block = X[start : start + TOGETHER]
            one, copies = slice(0, len(block)), slice(len(block), 2 * len(block))
            parts = self._moments(np.concatenate([block, block]), theta)
            found.append(parts.diagonal(copies) - parts.rectangle(copies, one).diagonal())
        return np.concatenate(found)

    def given_theta(self, theta: list[np.ndarray], Xnew: np.ndarray, block_size: int) -> Conditional:
        """Return the process at one theta and the new inputs."""
        if self._solver is None:
            return super().given_theta(theta, Xnew, block_size)
        blocks = [slice(start, min(start + block_size, len(Xnew))) for start in range(0, len(Xnew), block_size)]
        assert self._moments is not None
        old = cast("MomentParts", self._moments(self.X, theta))
        return SolvedConditional(
            old, self.noise(theta, self.X), blocks, lambda block: self._parts(Xnew[block], theta), self._solver
        )

    def _parts(self, Xnew: np.ndarray, theta: list[np.ndarray]) -> Parts:
        return _WithoutNewNoise(super()._parts(Xnew, theta), self.size, self.noise(theta, Xnew))


class _WithoutNewNoise:
    """Moments of observations at old inputs followed by those of the process at new inputs."""

    def __init__(self, parts: Parts, size: int, noise: np.ndarray) -> None:
        self.mean = parts.mean
        self._parts, self._size, self._noise = parts, size, noise

    def rectangle(self, rows: slice, columns: slice) -> np.ndarray:
        """Return a part of the covariance that has none of the diagonal."""
        return self._parts.rectangle(rows, columns)

    def lower_triangle(self, where: slice) -> np.ndarray:
        """Return a square part on the diagonal, in Fortran order."""
        found = self._parts.lower_triangle(where)
        np.einsum("ii->i", found)[:] -= self._on(where)
        return found

    def diagonal(self, where: slice) -> np.ndarray:
        """Return a part of the diagonal."""
        return self._parts.diagonal(where) - self._on(where)

    def _on(self, where: slice) -> np.ndarray | float:
        """Return the noise in a part that has either old or new inputs."""
        return 0.0 if where.start < self._size else self._noise[where.start - self._size : where.stop - self._size]


class _Noiseless:
    """K from the covariance of observations; a `core.iterative.preconditioners.Kernel`."""

    def __init__(self, parts: MomentParts, noise: np.ndarray, memory: float) -> None:
        self._parts, self._noise, self.size = parts, noise, len(noise)
        self._products = Products(parts, memory)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply K by columns: (n, k) -> (n, k)."""
        return self._products(vectors) - self._noise[:, None] * vectors

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K: (m,) -> (n, m)."""
        columns = self._parts.gathered(points)
        columns[points, np.arange(len(points))] -= self._noise[points]
        return columns

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        return self._parts.block(where) - np.diag(self._noise[where])

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K: (n,)."""
        return self._parts.diagonal(slice(0, self.size)) - self._noise


class SolvedConditional(Conditional):
    """The process at one theta, with solutions of linear systems in place of a factorization.

    `old` has the moments of the observations, and `parts` takes a slice of the new inputs, as for `Conditional`.
    """

    def __init__(
        self,
        old: MomentParts,
        noise: np.ndarray,
        blocks: list[slice],
        parts: Callable[[slice], Parts],
        solver: Iterative,
    ) -> None:
        if not np.all(noise > 0.0):
            raise ModelError("the observations have no noise, but solvers need noise: use solver='cholesky'")
        self._old, self._blocks, self._parts, self._mean = slice(0, len(noise)), blocks, parts, old.mean
        self._kernel, self._noise, self._solver = _Noiseless(old, noise, SHARE * solver.memory), noise, solver

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return observations less their mean, which are the same for all k draws: (k, n) -> (n, k)."""
        return np.broadcast_to((f[0] - self._mean)[:, None], f.T.shape)

    def pointwise(self, whitened: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Yield mean and variance at the new inputs, block by block: arrays of shapes (k, m) and (m,).

        Raises MemoryError if a block has more new inputs than the memory allows.
        """
        self._refuse_more(max(block.stop - block.start for block in self._blocks))
        given = IterativeConditional(self._kernel, self._noise, self._solver)
        weights = given.weights(whitened[:, :1])[:, 0]
        for block in self._blocks:
            parts, new, between = self._between(block)
            prior = parts.diagonal(new)
            variance = np.maximum(prior - given.explained(between, prior), 0.0)
            mean = parts.mean[new] + weights @ between
            yield block, np.broadcast_to(mean, (whitened.shape[1], len(mean))), variance

    def jointly(self, rng: np.random.Generator, whitened: np.ndarray) -> np.ndarray:
        """Draw the process at all new inputs together: (k, m).

        Raises MemoryError if the memory does not suffice for one draw.
        """
        number, (size, draws) = self._blocks[-1].stop, whitened.shape
        together = draws_within(_left_by_K(self._solver, size), size, self._solver.rank, number, draws)
        parts, new = self._parts(slice(0, number)), slice(size, size + number)
        covariance = parts.lower_triangle(new)
        lower = np.tril(factor(covariance, np.einsum("ii->i", covariance).mean()))
        between = np.empty((number, size))
        for columns in bands(size, number):
            between[:, columns] = solve_triangular(lower, parts.rectangle(new, columns), lower=True)
        given = IterativeConditional(self._kernel, self._noise, self._solver)
        return parts.mean[new] + given.draws(rng, lower, between, whitened, together).T

    def _refuse_more(self, number: int) -> None:
        """Refuse more new inputs at a time than the memory allows."""
        solver, size = self._solver, len(self._noise)
        most = columns_within(_left_by_K(solver, size), size, solver.rank, number)
        if number > most:
            raise MemoryError(
                f"{number} new inputs at a time with {size} old ones take more than the {solver.memory:.3g} bytes that "
                f"memory= allows: give block_size={most} or less, or allow more"
            )

    def _between(self, block: slice) -> tuple[Parts, slice, np.ndarray]:
        """Return the moments, the slice of the new inputs in them, and the covariance of old and new ones, (n, m)."""
        parts = self._parts(block)
        new = slice(self._old.stop, self._old.stop + block.stop - block.start)
        return parts, new, np.ascontiguousarray(parts.rectangle(new, self._old).T)


def _left_by_K(solver: Iterative, size: int) -> float:
    """Return the memory that the elements of K, where they are kept, leave for solutions."""
    kept = bytes_of(size)
    return solver.memory - (kept if kept <= SHARE * solver.memory else 0)
