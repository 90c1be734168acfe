"""Graphs as lists of NumPy calls: ready at once, where Numba takes seconds.

A covariance needs a few operations on thin arrays before its blocks are filled. NumPy spends a microsecond on each of
them, which is negligible compared with the blocks. The terms of a likelihood are elementwise functions of many draws of
f; NumPy's loops over logarithms and exponentials use the processor's vector instructions, and Numba's do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property, partial, reduce
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import pytensor.scalar as ps
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.basic import Alloc, AllocEmpty, ARange, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
    indices_from_subtensor,
    unflatten_index_variables,
)
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError, numpy_function
from pmgp.interface.graphs.registers import LARGE, Call, NewArray, in_registers


class NumpyGraph:
    """Outputs as functions of the inputs, with one NumPy call for each operation that depends on the inputs.

    `translate` maps a node of the graph to the call that computes its output and the variables that this call takes.
    With `retain`, the memory of large matrices is kept from one call to the next. The `fixed` variables do not depend
    on the inputs, and the calls or the outputs need them.
    """

    def __init__(
        self,
        inputs: list[TensorVariable],
        outputs: list[TensorVariable],
        translate: Callable[[Any], Call] | None = None,
        retain: bool = False,
    ) -> None:
        moving = set(inputs)
        nodes = []
        for node in io_toposort(inputs, outputs):
            if moving & set(node.inputs):
                nodes.append(node)
                moving.update(node.outputs)
        made = [pair for node in nodes for pair in _with_results(node, translate or call_of)]
        calls, results = [call for call, _ in made], [result for _, result in made]
        sources = dict.fromkeys([*(source for _, taken in calls for source in taken), *outputs])
        self.fixed = [source for source in sources if source not in moving]
        known = {variable: register for register, variable in enumerate([*self.fixed, *inputs])}
        self._given = len(known)
        self._calls, _ = in_registers(calls, results, known, set(outputs), retain)
        self._outputs = [known[output] for output in outputs]

    def __call__(self, fixed: list[Any], *inputs: Any) -> list[Any]:
        """Compute the outputs from the values of `fixed` and of the inputs."""
        return self._program(*fixed, *inputs)

    @cached_property
    def _program(self) -> Callable[..., list[Any]]:
        """One function with a line for each call; a loop over the calls would add half of their time."""
        called = {f"f{place}": function for place, (function, _, _) in enumerate(self._calls)}
        lines = [
            f"r{target} = f{place}({_registers(sources)})" for place, (_, sources, target) in enumerate(self._calls)
        ]
        code = [f"def program({_registers(range(self._given))}):", *lines, f"return [{_registers(self._outputs)}]"]
        exec("\n    ".join(code), called)
        return called["program"]

    def __getstate__(self) -> dict[str, Any]:
        """Leave the graph behind when the calls are pickled."""
        return {name: value for name, value in self.__dict__.items() if name != "_program"} | {"fixed": []}


def _registers(places: Iterable[int]) -> str:
    return ", ".join([f"r{place}" for place in places])


def _with_results(node: Any, translate: Callable[[Any], Call]) -> list[tuple[Call, Any]]:
    """Return the calls for a node, each with its result: a single call, or one for each part of a split."""
    if not isinstance(node.op, Split):
        return [(translate(node), node.outputs[0])]
    whole, lengths = node.inputs
    if not isinstance(lengths, Constant):
        raise UnsupportedGraphError("parts whose lengths are not known")
    bounds = [0, *np.cumsum(lengths.data).tolist()]
    before = (slice(None),) * node.op.axis
    parts = [(*before, slice(start, stop)) for start, stop in pairwise(bounds)]
    return [((itemgetter(part), [whole]), output) for part, output in zip(parts, node.outputs, strict=True)]


def call_of(node: Any) -> Call:
    """Return the call that computes a node's output, and those of the node's inputs that it takes."""
    rule = next((rule for kind, rule in RULES.items() if isinstance(node.op, kind)), None)
    if rule is None or len(node.outputs) > 1:
        raise UnsupportedGraphError(f"no equivalent of {node.op} in NumPy")
    return rule(node)


def _elementwise(node: Any) -> Call:
    operation, inputs = getattr(node.op, "scalar_op", node.op), list(node.inputs)
    if operation == ps.second:
        return _filled, inputs
    if operation == ps.clip:
        return NewArray(_clipped, (0,)), inputs
    function = numpy_function(operation)
    dtype = node.outputs[0].dtype
    if dtype.startswith("float") and not any(variable.dtype.startswith("float") for variable in inputs):
        # NumPy would compute in half precision if the integers have few bits.
        function = partial(_of_floats, function, dtype)
    several = len(inputs) > 2 and operation in (ps.add, ps.mul)
    return (NewArray(partial(_folded, function), (0, 1)) if several else function), inputs


def _of_floats(function: Callable[..., Any], dtype: str, *values: np.ndarray) -> np.ndarray:
    return function(*[np.asarray(value, dtype=dtype) for value in values])


def _filled(like: np.ndarray, value: np.ndarray) -> np.ndarray:
    return np.full(np.broadcast_shapes(np.shape(like), np.shape(value)), value)


def _clipped(place: int | None, values: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.clip(values, low, high, out=None if place is None else values)


def _folded(function: Callable[..., Any], place: int | None, *values: np.ndarray) -> np.ndarray:
    """Fold a function over values, reusing one array, because making a large one takes longer than filling it."""
    first, second, *others = values
    result = function(first, second) if place is None else function(first, second, out=values[place])
    if np.size(result) < LARGE or result.dtype != np.float64:
        return reduce(function, others, result)
    for other in others:
        fits = np.broadcast_shapes(result.shape, np.shape(other)) == result.shape
        result = function(result, other, out=result) if fits else function(result, other)
    return result


def _dimshuffle(node: Any) -> Call:
    """Drop and add axes with an index, after a transposition if the remaining axes change places."""
    order = [axis for axis in node.op.new_order if axis != "x"]
    dropped = [axis for axis in range(node.inputs[0].ndim) if axis not in order]
    added = tuple(None if axis == "x" else slice(None) for axis in node.op.new_order)
    axes, index = [*dropped, *order], (0,) * len(dropped) + added
    if axes == sorted(axes):
        return itemgetter(index), node.inputs
    return partial(_shuffled, axes, index), node.inputs


def _shuffled(axes: list[int], index: tuple[Any, ...], values: np.ndarray) -> np.ndarray:
    return values.transpose(axes)[index]


def places(indices: list[Any], op: Any) -> tuple[Any, ...]:
    """Return the index of a part of an array, as numbers."""
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
    if all(isinstance(index, Constant) for index in node.inputs[1:]):
        return itemgetter(places(node.inputs[1:], node.op)), node.inputs[:1]
    return partial(_at_indices, node.op.idx_list), node.inputs


def _chosen(node: Any) -> Call:
    return NewArray(partial(_copied_from, node.op.idx_list)), node.inputs


def _at_indices(entries: tuple[Any, ...], values: np.ndarray, *indices: Any) -> np.ndarray:
    return values[unflatten_index_variables(indices, entries)]


def _copied_from(entries: tuple[Any, ...], place: int | None, values: np.ndarray, *indices: Any) -> np.ndarray:
    return _at_indices(entries, values, *indices)


def _changed_part(node: Any) -> Call:
    change: Callable[..., None]
    if node.op.set_instead_of_inc:
        change = np.ndarray.__setitem__
    else:
        # An index that occurs twice increases its element twice.
        change = _increase if getattr(node.op, "ignore_duplicates", True) else np.add.at
    return NewArray(partial(_changed_at, change, node.op.idx_list), (0,)), node.inputs


def _changed_at(
    change: Callable[..., Any],
    entries: tuple[Any, ...],
    place: int | None,
    whole: np.ndarray,
    part: np.ndarray,
    *indices: Any,
) -> np.ndarray:
    result = whole.copy() if place is None else whole
    change(result, unflatten_index_variables(indices, entries), part)
    return result


def _increase(whole: np.ndarray, places: tuple[Any, ...], part: np.ndarray) -> None:
    whole[places] += part


def _numbers_in_order(dtype: str, start: Any, stop: Any, step: Any) -> np.ndarray:
    return np.arange(start, stop, step, dtype=dtype)


def _reduction(node: Any) -> Call:
    function = numpy_function(node.op.scalar_op)
    if not isinstance(function, np.ufunc):
        raise UnsupportedGraphError(f"no equivalent of {node.op} in NumPy")
    return partial(function.reduce, axis=node.op.axis), node.inputs


def _joined(axis: int, *parts: np.ndarray) -> np.ndarray:
    return np.concatenate(parts, axis=axis)


def _vector(*elements: np.ndarray) -> np.ndarray:
    return np.array(elements)


def _shape_of(values: np.ndarray) -> np.ndarray:
    return np.array(np.shape(values))


def _length_of(axis: int, values: np.ndarray) -> np.ndarray:
    return np.array(np.shape(values)[axis])


def _empty(*lengths: np.ndarray) -> np.ndarray:
    return np.zeros([int(length) for length in lengths])


def _repeated(value: np.ndarray, *lengths: np.ndarray) -> np.ndarray:
    return np.full([int(length) for length in lengths], value)


RULES: dict[type, Callable[[Any], Call]] = {
    Elemwise: _elementwise,
    ps.ScalarOp: _elementwise,
    DimShuffle: _dimshuffle,
    Subtensor: _part,
    AdvancedSubtensor: _chosen,
    IncSubtensor: _changed_part,
    AdvancedIncSubtensor: _changed_part,
    ARange: lambda node: (partial(_numbers_in_order, node.op.dtype), node.inputs),
    CumOp: lambda node: (partial(np.cumsum if node.op.mode == "add" else np.cumprod, axis=node.op.axis), node.inputs),
    CAReduce: _reduction,
    Join: lambda node: (partial(_joined, node.op.axis), node.inputs),
    MakeVector: lambda node: (_vector, node.inputs),
    Dot: lambda node: (np.dot, node.inputs),
    Shape: lambda node: (_shape_of, node.inputs),
    Shape_i: lambda node: (partial(_length_of, node.op.i), node.inputs),
    Reshape: lambda node: (np.reshape, node.inputs),
    SpecifyShape: lambda node: (np.asarray, node.inputs[:1]),
    Alloc: lambda node: (_repeated, node.inputs),
    AllocEmpty: lambda node: (_empty, node.inputs),
    ScalarFromTensor: lambda node: (np.asarray, node.inputs),
    TensorFromScalar: lambda node: (np.asarray, node.inputs),
}
