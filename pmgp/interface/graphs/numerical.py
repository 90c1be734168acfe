"""Functions of NumPy and LAPACK calls, for graphs of linear algebra that a sampler needs at once.

`NumpyGraph` has rules for the operations of covariances and priors. This module adds factorizations and triangular
solves, and leaves operations without a rule to their own `perform`, which takes a few microseconds more.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.tensor.basic import AllocDiag, ExtractDiag
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.variable import TensorVariable
from scipy.linalg.blas import dger, dtrsm
from scipy.linalg.lapack import dpotrf

from pmgp.interface.graphs.compilation import Compiler, making_graphs
from pmgp.interface.graphs.matrix_rewrites import ColumnSquares, RankOne, rewritten
from pmgp.interface.graphs.numpy_graph import Call, NumpyGraph, call_of
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.registers import NewArray


class NumericalFunction:
    """A function that maps the values of inputs to those of outputs.

    If it may be `rearranged`, sums and products are taken in another order, which changes the last digits and takes
    less time where matrices are large.
    """

    def __init__(self, inputs: list[TensorVariable], outputs: list[TensorVariable], rearranged: bool = False) -> None:
        with making_graphs():
            outputs = rewritten(outputs, rearranged=rearranged)
        self._graph = NumpyGraph(inputs, outputs, _call, retain=True)
        self._at_rest = Compiler().as_written([], self._graph.fixed)
        self.refresh_data()

    def refresh_data(self) -> None:
        """Recompute the values that do not depend on the inputs, as `pymc.set_data` may have changed them."""
        self._fixed = self._at_rest()

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """Compute the outputs; they are not a number where a matrix is not positive definite."""
        with np.errstate(all="ignore"):
            return self._graph(self._fixed, *values)


def _call(node: Any) -> Call:
    """Return the call for a node, and the inputs that it takes."""
    op = node.op
    core = op.core_op if isinstance(op, Blockwise) and op.batch_ndim(node) == 0 else op
    if isinstance(core, Cholesky):
        return NewArray(partial(_cholesky, core.lower)), node.inputs
    if isinstance(core, SolveTriangular) and core.b_ndim == 2 and not core.unit_diagonal:
        return NewArray(partial(_solve, core.lower), (1,)), node.inputs
    if isinstance(core, AllocDiag) and node.inputs[0].ndim == 1 and core.offset == 0:
        return np.diag, node.inputs
    if isinstance(core, ExtractDiag) and node.inputs[0].ndim == 2:
        return partial(np.diagonal, offset=core.offset), node.inputs
    if isinstance(op, ColumnSquares):
        return NewArray(_column_squares), node.inputs
    if isinstance(op, RankOne):
        return NewArray(_rank_one, (0,)), node.inputs
    try:
        return call_of(node)
    except UnsupportedGraphError:
        return _Performed(node), node.inputs


def _cholesky(lower: bool, _: None, matrix: np.ndarray) -> np.ndarray:
    # The matrix is symmetric, and its transpose is in Fortran order without a copy.
    factor, info = dpotrf(matrix.T if matrix.flags.c_contiguous else matrix, lower=lower, clean=1)
    return factor if info == 0 else np.full_like(factor, np.nan)


def _solve(lower: bool, place: int | None, factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Solve A X = B, or X' A' = B' where B is in C order, so that nothing is copied."""
    over = place is not None
    turned = not factor.flags.f_contiguous
    matrix, low = (factor.T, not lower) if turned else (factor, lower)
    if b.flags.f_contiguous:
        return dtrsm(1.0, matrix, b, lower=low, trans_a=turned, overwrite_b=over)
    return dtrsm(1.0, matrix, b.T, side=1, lower=low, trans_a=not turned, overwrite_b=over).T


def _column_squares(_: None, matrix: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->j", matrix, matrix)


def _rank_one(place: int | None, matrix: np.ndarray, column: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Compute matrix + column * row on the matrix or its transpose, whichever is in Fortran order."""
    over = place is not None
    if matrix.flags.f_contiguous:
        return dger(1.0, column[:, 0], row[0], a=matrix, overwrite_a=over)
    return dger(1.0, row[0], column[:, 0], a=matrix.T, overwrite_a=over).T


class _Performed:
    """The operation's own implementation in Python."""

    def __init__(self, node: Any) -> None:
        if len(node.outputs) > 1:
            raise UnsupportedGraphError(f"{node.op} has several outputs")
        # A node of its own, so that it can be pickled without the graph.
        self._node = node.op.make_node(*[part if isinstance(part, Constant) else part.type() for part in node.inputs])
        node.op.prepare_node(self._node, {}, {}, "py")

    def __call__(self, *values: Any) -> Any:
        storage: list[list[Any]] = [[None]]
        self._node.op.perform(self._node, list(values), storage)
        return storage[0][0]
