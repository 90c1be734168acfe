"""Graphs as lists of calls of NumPy: ready at once, where Numba takes seconds.

What a covariance needs before its blocks are filled are a few operations on thin arrays. NumPy spends a microsecond on
each of them, next to nothing beside the blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import itemgetter
from typing import Any

import numpy as np
import pytensor.scalar as ps
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.basic import Alloc, AllocEmpty, Join, MakeVector
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorVariable

__all__ = ["Call", "NumpyGraph", "UnsupportedGraphError", "call_of", "numpy_function"]


Call = tuple[Callable[..., Any], list[Any]]


class UnsupportedGraphError(TypeError):
    """A graph with an operation that has no equivalent in NumPy."""


class NumpyGraph:
    """Outputs as functions of the inputs, one call of NumPy for each operation that depends on these.

    Parameters
    ----------
    inputs : list of variables
    outputs : list of variables
        Each depends on some of the inputs.
    rule : callable, optional
        From a node to the call that computes it, and the inputs that this takes, where more than NumPy is known.

    Attributes
    ----------
    fixed : list of variables
        What the calls take besides, and what does not depend on the inputs.

    Raises
    ------
    UnsupportedGraphError
        If an operation has no equivalent in NumPy.
    """

    def __init__(
        self,
        inputs: list[TensorVariable],
        outputs: list[TensorVariable],
        rule: Callable[[Any], Call] | None = None,
    ) -> None:
        moving = set(inputs)
        nodes = []
        for node in io_toposort(inputs, outputs):
            if moving & set(node.inputs):
                nodes.append(node)
                moving.update(node.outputs)
        calls = [(rule or call_of)(node) for node in nodes]
        sources = dict.fromkeys(source for _, taken in calls for source in taken)
        self.fixed = [source for source in sources if source not in moving]
        results = [node.outputs[0] for node in nodes]
        places = {variable: place for place, variable in enumerate([*self.fixed, *inputs, *results])}
        self._calls = [(function, [places[source] for source in taken]) for function, taken in calls]
        self._outputs = [places[output] for output in outputs]

    @property
    def plan(self) -> tuple[list[tuple[Callable[..., Any], list[int]]], list[int]]:
        """The calls, each with the places of its arguments among `fixed`, inputs and results; those of the outputs."""
        return self._calls, self._outputs

    def __call__(self, fixed: list[np.ndarray], *inputs: np.ndarray) -> list[np.ndarray]:
        """Values of the outputs, from those of `fixed` and of the inputs."""
        registers: list[Any] = [*fixed, *inputs]
        for function, sources in self._calls:
            registers.append(function(*[registers[source] for source in sources]))
        return [registers[place] for place in self._outputs]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the graph behind when the calls are pickled."""
        return self.__dict__ | {"fixed": []}


def numpy_function(operation: ps.ScalarOp) -> Callable[..., Any]:
    """NumPy's equivalent of a scalar operation.

    Raises
    ------
    UnsupportedGraphError
        If it has none.
    """
    name = (getattr(operation, "nfunc_spec", None) or ("",))[0]
    function = getattr(np, name, None)
    if function is None:
        raise UnsupportedGraphError(f"no equivalent of {operation} in NumPy")
    return function


def call_of(node: Any) -> Call:
    """The call that computes a node's output, and the node's inputs that it takes."""
    rule = next((rule for kind, rule in RULES.items() if isinstance(node.op, kind)), None)
    if rule is None or len(node.outputs) > 1:
        raise UnsupportedGraphError(f"no equivalent of {node.op} in NumPy")
    return rule(node)


def _elementwise(node: Any) -> Call:
    operation, inputs = node.op.scalar_op, list(node.inputs)
    if operation == ps.second:
        return _filled, inputs
    if operation == ps.clip:
        return np.clip, inputs
    function = numpy_function(operation)
    return (partial(_folded, function) if len(inputs) > 2 and operation in (ps.add, ps.mul) else function), inputs


def _filled(like: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.full(np.broadcast_shapes(np.shape(like), np.shape(value)), value)


def _folded(function: Callable[..., Any], *values: np.ndarray) -> np.ndarray:
    return reduce(function, values)


def _dimshuffle(node: Any) -> Call:
    """Axes dropped and added by an index; where the others change places too, after a transposition."""
    order = [axis for axis in node.op.new_order if axis != "x"]
    dropped = [axis for axis in range(node.inputs[0].ndim) if axis not in order]
    added = tuple(None if axis == "x" else slice(None) for axis in node.op.new_order)
    if not dropped and order == sorted(order):
        return itemgetter(added), node.inputs
    return partial(_shuffled, [*dropped, *order], (0,) * len(dropped) + added), node.inputs


def _shuffled(axes: list[int], index: tuple[Any, ...], values: np.ndarray) -> np.ndarray:
    return values.transpose(axes)[index]


def _places(indices: list[Any], op: Any) -> tuple[Any, ...]:
    return tuple(_known_index(index) for index in indices_from_subtensor(indices, op.idx_list))


def _known_index(index: Any) -> Any:
    if isinstance(index, slice):
        return slice(*[_known_index(bound) for bound in (index.start, index.stop, index.step)])
    if isinstance(index, Constant):
        return int(index.data)
    if index is None or isinstance(index, int):
        return index
    raise UnsupportedGraphError("an index that is not known")


def _part(node: Any) -> Call:
    return itemgetter(_places(node.inputs[1:], node.op)), node.inputs[:1]


def _changed_part(node: Any) -> Call:
    change = _with_part if node.op.set_instead_of_inc else _with_more
    return partial(change, _places(node.inputs[2:], node.op)), node.inputs[:2]


def _with_part(places: tuple[Any, ...], whole: np.ndarray, part: np.ndarray) -> np.ndarray:
    result = whole.copy()
    result[places] = part
    return result


def _with_more(places: tuple[Any, ...], whole: np.ndarray, part: np.ndarray) -> np.ndarray:
    result = whole.copy()
    result[places] += part
    return result


def _cumulative(node: Any) -> Call:
    return partial(np.cumsum if node.op.mode == "add" else np.cumprod, axis=node.op.axis), node.inputs


def _reduction(node: Any) -> Call:
    function = numpy_function(node.op.scalar_op)
    if not isinstance(function, np.ufunc):
        raise UnsupportedGraphError(f"no equivalent of {node.op} in NumPy")
    return partial(function.reduce, axis=node.op.axis), node.inputs


def _join(node: Any) -> Call:
    return partial(_joined, node.op.axis), node.inputs


def _joined(axis: int, *parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=axis)


def _make_vector(node: Any) -> Call:
    return _vector, node.inputs


def _vector(*elements: np.ndarray) -> np.ndarray:
    return np.array(elements)


def _dot(node: Any) -> Call:
    return np.dot, node.inputs


def _shape(node: Any) -> Call:
    return (_shape_of if isinstance(node.op, Shape) else partial(_length_of, node.op.i)), node.inputs


def _shape_of(values: np.ndarray) -> np.ndarray:
    return np.array(np.shape(values))


def _length_of(axis: int, values: np.ndarray) -> np.ndarray:
    return np.array(np.shape(values)[axis])


def _alloc(node: Any) -> Call:
    return (_empty if isinstance(node.op, AllocEmpty) else _repeated), node.inputs


def _empty(*lengths: np.ndarray) -> np.ndarray:
    return np.zeros([int(length) for length in lengths])


def _repeated(value: np.ndarray, *lengths: np.ndarray) -> np.ndarray:
    return np.full([int(length) for length in lengths], value)


RULES: dict[type, Callable[[Any], Call]] = {
    Elemwise: _elementwise,
    DimShuffle: _dimshuffle,
    Subtensor: _part,
    IncSubtensor: _changed_part,
    CumOp: _cumulative,
    CAReduce: _reduction,
    Join: _join,
    MakeVector: _make_vector,
    Dot: _dot,
    Shape: _shape,
    Shape_i: _shape,
    Alloc: _alloc,
    AllocEmpty: _alloc,
}
