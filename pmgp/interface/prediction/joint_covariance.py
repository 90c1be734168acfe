"""The mean and the covariance of f at old and new inputs together: only the parts of it that are asked for.

The graph of the covariance as instructions (`interface.covariance.program`) can be evaluated on any rectangle, and on
the diagonal alone. A graph that has no such form is evaluated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.covariance.program import Instruction, Program
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError

__all__ = ["JointMoments", "Parts", "compile_joint_moments"]

# Elements of a block: a few arrays of that size stay in the second-level cache.
BLOCK_ELEMENTS = 32_768
# Relative to the largest covariance.
SAME = 1e-12

Compile = Callable[[list[TensorVariable]], Callable[..., list[np.ndarray]]]


class Parts(Protocol):
    """Moments at some inputs.

    Attributes
    ----------
    mean : (N,) array
    """

    mean: np.ndarray

    def rectangle(self, rows: slice, columns: slice) -> np.ndarray:
        """A part of the covariance."""

    def lower_triangle(self, where: slice) -> np.ndarray:
        """A square part on the diagonal, in Fortran order; above its own diagonal there may be anything."""

    def diagonal(self, where: slice) -> np.ndarray:
        """A part of the diagonal."""


class JointMoments(Protocol):
    """From inputs of shape (N, d) and theta to the moments there.

    Attributes
    ----------
    whole : bool
        Whether it takes memory for the whole covariance.
    """

    whole: bool

    def __call__(self, X: np.ndarray, theta: list[np.ndarray]) -> Parts:
        """The moments at theta."""


def compile_joint_moments(
    mean: TensorVariable, covariance: TensorVariable, compile_function: Compile, X: np.ndarray, theta: list[np.ndarray]
) -> JointMoments:
    """The quickest way to the moments that agrees with PyTensor's own at these inputs and theta.

    Parameters
    ----------
    mean, covariance : TensorVariable
        Graphs of the inputs and theta.
    compile_function : callable
        From outputs to a function of the inputs and theta.
    X : (k, d) array
        Some inputs, two of them equal or more.
    theta : list of arrays
    """
    whole = WholeMoments(mean, covariance, compile_function)
    try:
        quick = PartialMoments(mean, covariance, compile_function)
    except UnsupportedGraphError:
        return whole
    return quick if _agree(quick(X, theta), whole(X, theta), len(X)) else whole


def _agree(parts: Parts, expected: Parts, size: int) -> bool:
    everything, half = slice(0, size), slice(size // 2, size)
    covariance = expected.rectangle(everything, everything)
    differences = [
        parts.rectangle(half, everything) - covariance[half],
        np.tril(parts.lower_triangle(everything) - covariance),
        parts.diagonal(half) - covariance.diagonal()[half],
    ]
    largest = max(np.abs(difference).max() for difference in differences)
    close = bool(largest <= SAME * np.abs(covariance).max())
    return close and np.allclose(parts.mean, expected.mean, rtol=SAME, atol=SAME)


class WholeMoments:
    """Moments whose covariance is computed as a whole."""

    whole = True

    def __init__(self, mean: TensorVariable, covariance: TensorVariable, compile_function: Compile) -> None:
        self._function = compile_function([mean, covariance])

    def __call__(self, X: np.ndarray, theta: list[np.ndarray]) -> Parts:
        """The moments at theta."""
        return WholeParts(*self._function(X, *theta))


class WholeParts:
    """Moments of which all parts are there."""

    def __init__(self, mean: np.ndarray, covariance: np.ndarray) -> None:
        self.mean = mean
        self._covariance = covariance

    def rectangle(self, rows: slice, columns: slice) -> np.ndarray:
        """A part of the covariance."""
        return self._covariance[rows, columns]

    def lower_triangle(self, where: slice) -> np.ndarray:
        """A square part on the diagonal."""
        return np.asfortranarray(self._covariance[where, where])

    def diagonal(self, where: slice) -> np.ndarray:
        """A part of the diagonal."""
        return self._covariance.diagonal()[where]


class PartialMoments:
    """Moments whose covariance is an elementwise function of thin matrices.

    Raises
    ------
    UnsupportedGraphError
        If it is not.
    """

    whole = False

    def __init__(self, mean: TensorVariable, covariance: TensorVariable, compile_function: Compile) -> None:
        mean, covariance = rewrite_graph([mean, covariance], include=("canonicalize", "stabilize", "specialize"))
        program = Program(covariance)
        if any(not any(leaf.type.broadcastable) for leaf in program.leaves):
            raise UnsupportedGraphError("a covariance with a part that is only known as a whole")
        self._code = program.code
        self._shape = (len(program.leaves), len(program.products))
        factors = [factor for pair in program.products for factor in pair]
        self._function = compile_function([mean, *program.leaves, *factors, *program.diagonals])

    def __call__(self, X: np.ndarray, theta: list[np.ndarray]) -> Parts:
        """The moments at theta."""
        mean, *values = self._function(X, *theta)
        leaves, products = self._shape
        factors, diagonals = values[leaves : leaves + 2 * products], values[leaves + 2 * products :]
        return PartialParts(
            mean, self._code, values[:leaves], list(zip(factors[::2], factors[1::2], strict=True)), diagonals
        )


class PartialParts:
    """Moments of which a part is computed when it is asked for.

    Parameters
    ----------
    mean : (N,) array
    code : list of Instruction
    leaves : list of arrays
        Of shape (N, 1), (1, N) or (1, 1).
    products : list of pairs of arrays
        Of shapes (N, k) and (k, N).
    diagonals : list of arrays
        Of shape (N,) or (1,).
    """

    def __init__(
        self,
        mean: np.ndarray,
        code: list[Instruction],
        leaves: list[np.ndarray],
        products: list[tuple[np.ndarray, np.ndarray]],
        diagonals: list[np.ndarray],
    ) -> None:
        self.mean = mean
        self._code = code
        self._leaves = leaves
        self._products = products
        self._diagonals = [np.broadcast_to(values, mean.shape) for values in diagonals]

    def rectangle(self, rows: slice, columns: slice) -> np.ndarray:
        """A part of the covariance."""
        width = columns.stop - columns.start
        out = np.empty((rows.stop - rows.start, width))
        height = max(1, BLOCK_ELEMENTS // width)
        for start in range(rows.start, rows.stop, height):
            stop = min(start + height, rows.stop)
            out[start - rows.start : stop - rows.start] = self._block(slice(start, stop), columns)
        return out

    def lower_triangle(self, where: slice) -> np.ndarray:
        """A square part on the diagonal: the upper one in C order."""
        size = where.stop - where.start
        upper = np.empty((size, size))
        start = where.start
        while start < where.stop:
            stop = min(where.stop, start + max(1, BLOCK_ELEMENTS // (where.stop - start)))
            first = start - where.start
            upper[first : stop - where.start, first:] = self._block(slice(start, stop), slice(start, where.stop))
            start = stop
        return upper.T

    def diagonal(self, where: slice) -> np.ndarray:
        """A part of the diagonal."""
        size = where.stop - where.start
        registers: list[Any] = []
        for instruction in self._code:
            registers.append(self._on_diagonal(instruction, registers, where))
        return np.array(np.broadcast_to(registers[-1], (size,)))

    def _block(self, rows: slice, columns: slice) -> np.ndarray:
        registers: list[np.ndarray] = []
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        for kind, function, sources, place, value in self._code:
            operands = [registers[source] for source in sources]
            if kind == "call":
                registers.append(function(*operands))
            elif kind == "product":
                left, right = self._products[place]
                registers.append(left[rows] @ right[:, columns])
            elif kind == "diagonal":
                registers.append(_plus_diagonal(operands[0], self._diagonals[place], rows, columns))
            elif kind == "constant":
                registers.append(np.full(shape, value))
            else:
                leaf = self._leaves[place]
                registers.append(leaf[rows if leaf.shape[0] > 1 else ..., :][:, columns if leaf.shape[1] > 1 else ...])
        return np.broadcast_to(registers[-1], shape)

    def _on_diagonal(self, instruction: Instruction, registers: list[Any], where: slice) -> Any:
        kind, function, sources, place, value = instruction
        operands = [registers[source] for source in sources]
        if kind == "call":
            return function(*operands)
        if kind == "product":
            left, right = self._products[place]
            return np.einsum("ij,ji->i", left[where], right[:, where])
        if kind == "diagonal":
            return operands[0] + self._diagonals[place][where]
        if kind == "constant":
            return value
        leaf = self._leaves[place].ravel()
        return leaf[where] if leaf.size > 1 else leaf


def _plus_diagonal(matrix: np.ndarray, values: np.ndarray, rows: slice, columns: slice) -> np.ndarray:
    """A block plus what stands on the diagonal of the whole matrix there."""
    shape = (rows.stop - rows.start, columns.stop - columns.start)
    result = np.array(np.broadcast_to(matrix, shape))
    start, stop = max(rows.start, columns.start), min(rows.stop, columns.stop)
    places = np.arange(start, max(start, stop))
    result[places - rows.start, places - columns.start] += values[places]
    return result
