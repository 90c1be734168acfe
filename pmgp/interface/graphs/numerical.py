"""Functions by NumPy and LAPACK calls, for graphs of linear algebra that a sampler needs at once.

`NumpyGraph` knows what covariances and priors are made of. Here are factorizations and triangular solves
besides, and what has no rule is left to the operation's own `perform`, at some microseconds more.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.basic import AllocDiag, ExtractDiag, Split
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.variable import TensorVariable
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_graph import Call, NumpyGraph, call_of
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError

__all__ = ["NumericalFunction"]


class NumericalFunction:
    """From values of inputs to those of outputs.

    Parameters
    ----------
    inputs : list of variables
    outputs : list of variables
    """

    def __init__(self, inputs: list[TensorVariable], outputs: list[TensorVariable]) -> None:
        included = ("merge", "canonicalize", "local_check_parameter_to_ninf_switch", "stabilize", "specialize")
        outputs = rewrite_graph(outputs, include=included, custom_rewrite=in2out(_parts_of_split))
        self._graph = NumpyGraph(inputs, outputs, _call)
        self._at_rest = Compiler()([], self._graph.fixed, interpreted=True)
        self.refresh_data()

    def refresh_data(self) -> None:
        """Compute again what does not depend on the inputs, as `pymc.set_data` may have changed it."""
        self._fixed = self._at_rest()

    def __call__(self, *values: np.ndarray) -> list[np.ndarray]:
        """Values of all outputs; not a number where a matrix is not positive definite."""
        with np.errstate(all="ignore"):
            return self._graph(self._fixed, *values)


@node_rewriter([Split])
def _parts_of_split(_: Any, node: Any) -> list[Any] | None:
    """Parts of an array, each an operation with one output."""
    whole, axis, lengths = node.inputs[0], node.op.axis, node.inputs[-1]
    if not isinstance(lengths, Constant):
        return None
    bounds = pairwise([0, *np.cumsum(lengths.data).tolist()])
    return [whole[(*(slice(None),) * axis, slice(start, stop))] for start, stop in bounds]


def _call(node: Any) -> Call:
    """The call for a node, and the inputs that it takes."""
    op = node.op
    core = op.core_op if isinstance(op, Blockwise) and op.batch_ndim(node) == 0 else op
    if isinstance(core, Cholesky):
        return partial(_cholesky, core.lower), node.inputs
    if isinstance(core, SolveTriangular) and core.b_ndim == 2 and not core.unit_diagonal:
        return partial(_solve, core.lower), node.inputs
    if isinstance(core, AllocDiag) and node.inputs[0].ndim == 1 and core.offset == 0:
        return np.diag, node.inputs
    if isinstance(core, ExtractDiag) and node.inputs[0].ndim == 2:
        return partial(np.diagonal, offset=core.offset), node.inputs
    try:
        return call_of(node)
    except UnsupportedGraphError:
        return _Performed(node), node.inputs


def _cholesky(lower: bool, matrix: np.ndarray) -> np.ndarray:
    # The matrix is symmetric, and its transpose in Fortran's order costs no copy.
    factor, info = dpotrf(matrix.T if matrix.flags.c_contiguous else matrix, lower=lower, clean=1)
    return factor if info == 0 else np.full_like(factor, np.nan)


def _solve(lower: bool, factor: np.ndarray, b: np.ndarray) -> np.ndarray:
    """X with A X = B, by way of X' A' = B' where B lies row by row, so that nothing is copied."""
    turned = not factor.flags.f_contiguous
    matrix, low = (factor.T, not lower) if turned else (factor, lower)
    if b.flags.f_contiguous:
        return dtrsm(1.0, matrix, b, lower=low, trans_a=turned)
    return dtrsm(1.0, matrix, b.T, side=1, lower=low, trans_a=not turned).T


class _Performed:
    """The operation's own implementation in Python."""

    def __init__(self, node: Any) -> None:
        if len(node.outputs) > 1:
            raise UnsupportedGraphError(f"{node.op} has several outputs")
        # Apart from the graph, so that it can be pickled without that.
        self._node = node.op.make_node(*[part if isinstance(part, Constant) else part.type() for part in node.inputs])
        node.op.prepare_node(self._node, {}, {}, "py")

    def __call__(self, *values: Any) -> Any:
        storage: list[list[Any]] = [[None]]
        self._node.op.perform(self._node, list(values), storage)
        return storage[0][0]
