"""All latent vectors of a model at new inputs: the process of each of them, and their distribution given theta.

Given theta and their values at the old inputs, processes that are independent a priori stay so. Vectors whose mean and
covariance are the same graphs share a process, whose covariance is built and factorized once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import equal_computations
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.core.iterative.settings import Iterative
from pmgp.interface.graphs.rewriting import rewrite
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.time_series import is_process
from pmgp.interface.prediction.averages import number_of_nodes
from pmgp.interface.prediction.known_process import KnownProcess
from pmgp.interface.prediction.latent_process import FEWEST_POINTS, LARGEST, Conditional, LatentProcess, Moments
from pmgp.interface.prediction.latent_rows import LatentRows
from pmgp.interface.prediction.observed_process import ObservedProcess
from pmgp.interface.prediction.state_process import StateConditional, StateProcess


class LatentProcesses:
    """The processes of the latent vectors, at the same inputs X (n, d).

    Their moments depend on the free variables `theta`. The user may pass the processes themselves, `known`. With
    `solver`, systems of the covariance of observations are solved iteratively.
    """

    def __init__(
        self,
        rows: LatentRows,
        theta: list[TensorVariable],
        known: Sequence[KnownProcess] = (),
        solver: Iterative | None = None,
    ) -> None:
        self.rows = rows
        self.theta = theta
        self._solver = solver
        self._processes, self._rows = _shared(rows, theta, known, solver)
        self.inputs: list[Any] = []
        for process in self._processes:
            self.inputs += [variable for variable in process.inputs if variable not in self.inputs]
        self.sources = [data for process in self._processes for data in process.sources]
        self.X = self._processes[0].X
        if any(not np.array_equal(self.X, process.X) for process in self._processes):
            raise ModelError(
                f"the covariances of {rows.name} are built from different inputs: build all of them with one X, with "
                "active_dims for the columns of each, and pass the processes: gp=[...]"
            )

    @property
    def size(self) -> int:
        """The length of each latent vector."""
        return self.rows.size

    def block_size(self, number: int) -> int:
        """Return the number of new inputs, out of `number`, to handle at a time."""
        smallest = min(process.block_size(number) for process in self._processes)
        if self.rows.single:
            return smallest
        nodes = number_of_nodes(self.rows.number)
        return min(smallest, max(FEWEST_POINTS, LARGEST // (self.rows.number * nodes)))

    @property
    def solved(self) -> str:
        """How linear systems are solved, in words."""
        if self._solver is None:
            return "by a Cholesky factorization"
        return f"by preconditioned conjugate gradients, to {self._solver.tolerance:g} posterior standard deviations"

    def noise(self, theta: list[np.ndarray], Xnew: np.ndarray) -> np.ndarray:
        """Return the variances of the noise of observations at new inputs, (m,); zero for latent vectors."""
        [process] = self._processes
        return process.noise(theta, Xnew) if isinstance(process, ObservedProcess) else np.zeros(len(Xnew))

    def compile(self, Xnew: np.ndarray, theta: list[np.ndarray]) -> None:
        """Compile functions for inputs of this kind."""
        for process in self._processes:
            process.compile(Xnew, theta)

    def given(self, theta: list[np.ndarray], f: np.ndarray, Xnew: np.ndarray, block_size: int) -> GivenTheta:
        """Return the processes at one theta and the new inputs, for draws of f, (C, k, n)."""
        conditionals = [process.given_theta(theta, Xnew, block_size) for process in self._processes]
        return GivenTheta(conditionals, self._rows, f)


def _shared(
    rows: LatentRows, theta: list[TensorVariable], given: Sequence[KnownProcess], solver: Iterative | None
) -> tuple[Sequence[LatentProcess | StateProcess], list[list[int]]]:
    """Return the different processes, and the rows that belong to each."""
    if rows.observed is not None:
        return [ObservedProcess(rows.variables[0], theta, given, solver)], [[0]]
    if rows.single:
        [f] = rows.variables
        return [StateProcess(f, theta) if is_process(f) else LatentProcess(f, theta, known=given)], [[0]]
    values = [rv.type() for rv in theta]
    known: list[list[TensorVariable]] = []
    processes: list[LatentProcess] = []
    places: list[list[int]] = []
    for row, (f, moments) in enumerate(_moments_of_rows(rows)):
        graphs = _simplified(moments, dict(zip(theta, values, strict=True)))
        same = next((i for i, other in enumerate(known) if equal_computations(graphs, other)), None)
        if same is not None:
            places[same].append(row)
            continue
        known.append(graphs)
        processes.append(LatentProcess(f, theta, moments, given))
        places.append([row])
    return processes, places


def _moments_of_rows(rows: LatentRows) -> Iterator[tuple[TensorVariable, Moments]]:
    """Return each row's variable, with the graphs of its mean and covariance."""
    for f, shape in zip(rows.variables, rows.shapes, strict=True):
        mean, covariance = f.owner.op.dist_params(f.owner)
        for row in [None] if len(shape) == 1 else range(shape[0]):
            yield f, (_row(mean, row, 1), _row(covariance, row, 2))


def _row(parameter: TensorVariable, row: int | None, dimensions: int) -> TensorVariable:
    """Return the parameter of one row of a matrix, if there is one for each row."""
    if row is None or parameter.ndim == dimensions:
        return parameter
    return parameter[0 if parameter.type.shape[0] == 1 else row]


def _simplified(moments: Moments, values: dict[TensorVariable, TensorVariable]) -> list[TensorVariable]:
    """Simplify graphs for comparison: an element of a stack becomes the stacked variable."""
    graphs = clone_replace(list(moments), values, rebuild_strict=False)
    return rewrite(graphs, ("canonicalize", "specialize"), clone=True)


class GivenTheta:
    """The processes at one theta, given draws of f.

    Each of the different conditionals has a list of its rows in f (C, k, n).
    """

    def __init__(
        self, conditionals: Sequence[Conditional | StateConditional], rows: list[list[int]], f: np.ndarray
    ) -> None:
        self._shape = f.shape[:2]
        size = f.shape[2]
        whitened = [each.whiten(f[own].reshape(-1, size)) for each, own in zip(conditionals, rows, strict=True)]
        self._parts = list(zip(conditionals, whitened, rows, strict=True))

    def pointwise(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Return means and variances at the new inputs, block by block: arrays of shapes (C, k, m) and (C, m)."""
        found = [conditional.pointwise(whitened) for conditional, whitened, _ in self._parts]
        number, draws = self._shape
        for blocks in zip(*found, strict=True):
            where = blocks[0][0]
            length = where.stop - where.start
            if len(blocks) == 1:
                _, mean, variance = blocks[0]
                yield where, mean.reshape(number, draws, length), np.broadcast_to(variance, (number, length))
                continue
            means, variances = np.empty((number, draws, length)), np.empty((number, length))
            for (_, mean, variance), (_, _, rows) in zip(blocks, self._parts, strict=True):
                means[rows] = mean.reshape(len(rows), draws, length)
                variances[rows] = variance
            yield where, means, variances

    def jointly(self, rng: np.random.Generator) -> np.ndarray:
        """Draw the processes at all new inputs together: (C, k, m)."""
        number, draws = self._shape
        found = [conditional.jointly(rng, whitened) for conditional, whitened, _ in self._parts]
        out = np.empty((number, draws, found[0].shape[-1]))
        for drawn, (_, _, rows) in zip(found, self._parts, strict=True):
            out[rows] = drawn.reshape(len(rows), draws, -1)
        return out
