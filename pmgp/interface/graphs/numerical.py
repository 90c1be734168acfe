"""A function of one vector by NumPy and LAPACK calls, for graphs of linear algebra that a sampler needs at once.

`NumpyGraph` knows what covariances and priors are made of. Here are factorizations, triangular solves and special
functions besides, and what has no rule is left to the operation's own `perform`, at some microseconds more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytensor.scalar as ps
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.basic import AllocDiag, ExtractDiag
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.linalg.decomposition.cholesky import Cholesky
from pytensor.tensor.linalg.solvers.triangular import SolveTriangular
from pytensor.tensor.variable import TensorVariable
from scipy import special
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_graph import Call, NumpyGraph, UnsupportedGraphError, call_of

__all__ = ["NumericalFunction"]

SPECIAL: dict[type, Callable[..., Any]] = {
    ps.Erf: special.erf,
    ps.Erfc: special.erfc,
    ps.Erfcx: special.erfcx,
    ps.GammaLn: special.gammaln,
    ps.Psi: special.psi,
    ps.Sigmoid: special.expit,
    ps.Softplus: partial(np.logaddexp, 0.0),
}
SEVERAL: dict[Any, np.ufunc] = {ps.add: np.add, ps.mul: np.multiply}
# Those of calls whose result is no number.
LOGICAL = {
    *(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal, np.isnan, np.isinf, np.isfinite),
    *(np.logical_and, np.logical_or, np.logical_xor, np.logical_not),
}
# Elements of arrays that are worth the search for memory to reuse.
LARGE = 2**15


class NumericalFunction:
    """From a vector to the values of outputs.

    Parameters
    ----------
    vector : vector
    outputs : list of variables
        Each depends on it.
    """

    def __init__(self, vector: TensorVariable, outputs: list[TensorVariable]) -> None:
        included = ("merge", "canonicalize", "local_check_parameter_to_ninf_switch", "stabilize", "specialize")
        outputs = rewrite_graph(outputs, include=included)
        graph = NumpyGraph([vector], outputs, _call)
        self._steps, self._outputs = _with_last_uses(graph)
        self._at_rest = Compiler()([], graph.fixed, interpreted=True)
        self.refresh_data()

    def refresh_data(self) -> None:
        """Compute again what does not depend on the vector, as `pymc.set_data` may have changed it."""
        self._fixed = self._at_rest()

    def __call__(self, vector: np.ndarray) -> list[np.ndarray]:
        """Values of all outputs; not a number where a matrix is not positive definite."""
        registers: list[Any] = [*self._fixed, vector]
        with np.errstate(all="ignore"):
            for function, sources, last in self._steps:
                values = [registers[source] for source in sources]
                for source in last:
                    registers[source] = None
                reusable = last and isinstance(function, np.ufunc) and function not in LOGICAL
                out = _spare(values) if reusable else None
                registers.append(function(*values) if out is None else function(*values, out=out))
                # No reference to it may be left here when it is looked at next.
                del out
        return [registers[place] for place in self._outputs]


def _with_last_uses(graph: NumpyGraph) -> tuple[list[tuple[Callable[..., Any], list[int], list[int]]], list[int]]:
    """The calls of a graph, each with those of its sources that no later call takes; and the places of the outputs."""
    calls, outputs = graph.plan
    seen, steps = set(outputs), []
    for function, sources in reversed(calls):
        last = [source for source in dict.fromkeys(sources) if source not in seen]
        seen.update(sources)
        steps.append((function, sources, last))
    return steps[::-1], outputs


def _spare(values: list[Any]) -> np.ndarray | None:
    """One of the arguments of an elementwise call that can take its result: large, and known to nobody else.

    Fresh memory of many megabytes costs more than the arithmetic. What is a view, or has one, has another reference.
    """
    for place in range(len(values)):
        if np.size(values[place]) < LARGE or _references(values, place) > ALONE:
            continue
        value, others = values[place], values[:place] + values[place + 1 :]
        shapes = [np.shape(other) for other in others]
        if value.dtype == float and value.base is None and np.broadcast_shapes(value.shape, *shapes) == value.shape:
            return value
    return None


def _references(values: list[Any], place: int) -> int:
    return sys.getrefcount(values[place])


# Of an array that is nowhere but in a list, which depends on the version of Python.
ALONE = _references([np.empty(0)], 0)


def _accumulated(function: np.ufunc, first: np.ndarray, second: np.ndarray, *others: np.ndarray) -> np.ndarray:
    """Sum or product of several arrays, in the memory of the first result where it has the shape of the whole."""
    result = function(first, second)
    for other in others:
        fits = np.ndim(result) and np.broadcast_shapes(result.shape, np.shape(other)) == result.shape
        result = function(result, other, out=result) if fits else function(result, other)
    return result


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
    if isinstance(op, Elemwise) and op.scalar_op in SEVERAL and len(node.inputs) > 2:
        return partial(_accumulated, SEVERAL[op.scalar_op]), node.inputs
    if isinstance(op, Elemwise) and type(op.scalar_op) in SPECIAL:
        return SPECIAL[type(op.scalar_op)], node.inputs
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
