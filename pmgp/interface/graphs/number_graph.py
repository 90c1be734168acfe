"""Graphs of single numbers as lists of calls of Python's own functions.

The log-density of a few hyper-parameters takes some twenty operations on numbers. Python's `math` takes a twentieth of
a microsecond for each, so the whole takes as long as one call of a compiled function, and nothing has to be compiled.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from operator import itemgetter
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.scalar.math as psm
from pytensor.graph.basic import Constant
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numpy_graph import Call, NumpyGraph, places
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError


class NumberGraph:
    """Numbers as functions of constants and of single elements of a vector."""

    def __init__(self, vector: TensorVariable, outputs: list[TensorVariable]) -> None:
        self._by_number = NumpyGraph([vector], outputs, _call)
        self._by_numpy = NumpyGraph([vector], outputs)
        self._numbers, self._arrays = ([_constant(v) for v in g.fixed] for g in (self._by_number, self._by_numpy))
        self._numbers = [number.item() for number in self._numbers]

    def __call__(self, vector: np.ndarray) -> list[float]:
        """Compute the outputs; NumPy does so where Python raises an exception instead of returning infinity."""
        try:
            return self._by_number(self._numbers, vector.tolist())
        except (ArithmeticError, ValueError):
            with np.errstate(all="ignore"):
                return [float(value) for value in self._by_numpy(self._arrays, vector)]


def _constant(variable: Any) -> np.ndarray:
    if not isinstance(variable, Constant) or np.size(variable.data) != 1:
        raise UnsupportedGraphError(f"{variable} is not a constant number")
    return np.asarray(variable.data)


def _call(node: Any) -> Call:
    """Return the call for a node, in which the vector and its parts are lists, and everything else is a number."""
    if isinstance(node.op, Subtensor) and node.inputs[0].ndim == 1:
        return itemgetter(*places(node.inputs[1:], node.op)), node.inputs[:1]
    if getattr(node.outputs[0], "ndim", 0) > 0:
        raise UnsupportedGraphError(f"{node.op} makes an array")
    if isinstance(node.op, DimShuffle):
        return (itemgetter(0) if node.inputs[0].ndim else _same), node.inputs
    if isinstance(node.op, ScalarFromTensor | TensorFromScalar):
        return _same, node.inputs
    operation = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    function = FUNCTIONS.get(type(operation))
    if function is None:
        raise UnsupportedGraphError(f"no equivalent of {operation} for numbers")
    return function, node.inputs


def _same(value: Any) -> Any:
    return value


def _sum(*values: Any) -> Any:
    return sum(values)


def _product(*values: Any) -> Any:
    return math.prod(values)


def _square(value: Any) -> Any:
    return value * value


def _reciprocal(value: Any) -> Any:
    return 1.0 / value


def _chosen(condition: Any, yes: Any, no: Any) -> Any:
    return yes if condition else no


def _sigmoid(value: Any) -> Any:
    return 1.0 / (1.0 + math.exp(-value))


def _softplus(value: Any) -> Any:
    return math.log1p(math.exp(-abs(value))) + max(value, 0.0)


def _log1mexp(value: Any) -> Any:
    return math.log(-math.expm1(value)) if value > -math.log(2.0) else math.log1p(-math.exp(value))


def _larger(first: Any, second: Any) -> Any:
    return _ordered(first, second)[1]


def _smaller(first: Any, second: Any) -> Any:
    return _ordered(first, second)[0]


def _ordered(first: Any, second: Any) -> tuple[Any, Any]:
    if first <= second:
        return first, second
    if second < first:
        return second, first
    raise ValueError("not a number")


FUNCTIONS: dict[type, Callable[..., Any]] = {
    ps.Add: _sum,
    ps.Mul: _product,
    ps.Sub: operator.sub,
    ps.TrueDiv: operator.truediv,
    ps.Pow: math.pow,
    ps.Neg: operator.neg,
    ps.Abs: abs,
    ps.Sqr: _square,
    ps.Sqrt: math.sqrt,
    ps.Reciprocal: _reciprocal,
    ps.Exp: math.exp,
    ps.Expm1: math.expm1,
    ps.Log: math.log,
    ps.Log1p: math.log1p,
    ps.Tanh: math.tanh,
    ps.Switch: _chosen,
    ps.Maximum: _larger,
    ps.Minimum: _smaller,
    ps.LT: operator.lt,
    ps.LE: operator.le,
    ps.GT: operator.gt,
    ps.GE: operator.ge,
    ps.EQ: operator.eq,
    ps.NEQ: operator.ne,
    ps.AND: operator.and_,
    ps.OR: operator.or_,
    ps.IsNan: math.isnan,
    ps.IsInf: math.isinf,
    ps.Identity: _same,
    psm.GammaLn: math.lgamma,
    psm.Sigmoid: _sigmoid,
    psm.Softplus: _softplus,
    psm.Log1mexp: _log1mexp,
}
