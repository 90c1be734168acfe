"""Rules that map the unrolled inputs of a node to its unrolled output, one for each kind of operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Protocol

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from numpy.lib.array_utils import normalize_axis_tuple
from pymc.logprob.utils import CheckParameterValue
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Constant
from pytensor.tensor.basic import Alloc, AllocEmpty, ARange, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.basic import get_underlying_scalar_constant_value as constant_value
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i
from pytensor.tensor.subtensor import AdvancedSubtensor, IncSubtensor, Subtensor, indices_from_subtensor

from pmgp.interface.graphs.unrolling.bounds import always_holds
from pmgp.interface.graphs.unrolling.unrolled import NotElementwiseError, Unrolled, array_of, is_short


class Unroller(Protocol):
    """A function that unrolls the inputs of a node."""

    def __call__(self, variable: Any) -> Unrolled:
        """Return the unrolled variable."""

    def inside(self, inputs: dict[Any, Unrolled]) -> Unroller:
        """Return an unroller for the graph inside an operation, whose inputs are given."""


def _elementwise(unroll: Unroller, node: Any) -> Unrolled:
    if len(node.outputs) > 1:
        raise NotElementwiseError("several outputs")
    parts = [unroll(variable) for variable in node.inputs]
    kept = _common_axis(parts)
    try:
        arrays = np.broadcast_arrays(*[part.elements for part in parts])
    except ValueError as error:
        raise NotElementwiseError(str(error)) from error
    operation = Elemwise(node.op.scalar_op)
    values = [operation(*elements) for elements in zip(*[array.ravel() for array in arrays], strict=True)]
    return Unrolled(array_of(values, arrays[0].shape), kept)


def _common_axis(parts: list[Unrolled]) -> int | None:
    """Return the axis that was kept; no part may have a short axis in its place."""
    axes = {part.kept for part in parts if part.kept is not None}
    if len(axes) > 1 or any(part.elements.shape[axis] != 1 for axis in axes for part in parts):
        raise NotElementwiseError("different axes meet")
    return axes.pop() if axes else None


def _dimshuffle(unroll: Unroller, node: Any) -> Unrolled:
    elements, kept = unroll(node.inputs[0])
    order = [axis for axis in node.op.new_order if axis != "x"]
    if kept is not None and kept not in order:
        raise NotElementwiseError("the observations' axis is dropped")
    dropped = [axis for axis in range(elements.ndim) if axis not in order]
    moved = elements.transpose([*order, *dropped]).reshape([elements.shape[axis] for axis in order])
    added = tuple(place for place, axis in enumerate(node.op.new_order) if axis == "x")
    return Unrolled(np.expand_dims(moved, added), None if kept is None else node.op.new_order.index(kept))


def _join(unroll: Unroller, node: Any) -> Unrolled:
    parts = [unroll(variable) for variable in node.inputs]
    kept = {part.kept for part in parts}
    if len(kept) > 1 or node.op.axis in kept:
        raise NotElementwiseError("joined along the observations")
    return Unrolled(np.concatenate([part.elements for part in parts], axis=node.op.axis), kept.pop())


def _make_vector(unroll: Unroller, node: Any) -> Unrolled:
    return Unrolled(array_of([unroll(variable).elements.item() for variable in node.inputs], (len(node.inputs),)))


def _known_index(index: Any) -> Any:
    """Return an index whose parts are numbers."""
    if isinstance(index, slice):
        return slice(*[_known_index(bound) for bound in (index.start, index.stop, index.step)])
    if index is None or isinstance(index, int | np.integer):
        return index
    try:
        return int(constant_value(index))
    except NotScalarConstantError as error:
        raise NotElementwiseError("an index that is not known") from error


def _places(op: Any, inputs: list[Any]) -> tuple[Any, ...]:
    return tuple(_known_index(index) for index in indices_from_subtensor(inputs, op.idx_list))


def _subtensor(unroll: Unroller, node: Any) -> Unrolled:
    elements, kept = unroll(node.inputs[0])
    places = list(_places(node.op, node.inputs[1:]))
    if kept is not None and kept < len(places) and places[kept] != slice(None):
        elements, places[kept] = _some_observations(elements, places[kept]), slice(None)
    taken: Any = elements[tuple(places)]
    dropped = sum(not isinstance(place, slice) for place in places[:kept])
    array = taken if isinstance(taken, np.ndarray) else array_of([taken], ())
    return Unrolled(array, None if kept is None else kept - dropped)


def _some_observations(elements: np.ndarray, part: Any) -> np.ndarray:
    if not isinstance(part, slice):
        raise NotElementwiseError("a single observation")
    values = [element[part] if element.ndim else element for element in elements.ravel()]
    return array_of(values, elements.shape)


def _set_subtensor(unroll: Unroller, node: Any) -> Unrolled:
    whole, part = unroll(node.inputs[0]), unroll(node.inputs[1])
    if not node.op.set_instead_of_inc or whole.kept is not None or part.kept is not None:
        raise NotElementwiseError("a part of it is changed")
    elements = whole.elements.copy()
    elements[_places(node.op, node.inputs[2:])] = part.elements if part.elements.ndim else part.elements.item()
    return Unrolled(elements)


def _cumulative(unroll: Unroller, node: Any) -> Unrolled:
    elements, kept = unroll(node.inputs[0])
    axis = node.op.axis
    if axis is None or axis == kept:
        raise NotElementwiseError("cumulative over observations")
    combine = pt.add if node.op.mode == "add" else pt.mul
    slices = list(np.moveaxis(elements, axis, 0))
    for place in range(1, len(slices)):
        pairs = zip(np.ravel(slices[place - 1]), np.ravel(slices[place]), strict=True)
        slices[place] = array_of([combine(*pair) for pair in pairs], np.shape(slices[place]))
    return Unrolled(np.stack([np.asarray(one, dtype=object) for one in slices], axis=axis), kept)


def _reduction(unroll: Unroller, node: Any) -> Unrolled:
    elements, kept = unroll(node.inputs[0])
    # A number may be summed over an axis that it does not have, as in PyMC's density of pm.CAR.
    every = node.op.axis is None or elements.ndim == 0
    axes = normalize_axis_tuple(range(elements.ndim) if every else node.op.axis, elements.ndim)
    if kept in axes:
        raise NotElementwiseError("reduced over observations")
    combine = Elemwise(node.op.scalar_op)
    others = [axis for axis in range(elements.ndim) if axis not in axes]
    shape = tuple(elements.shape[axis] for axis in others)
    rows = elements.transpose([*others, *axes]).reshape(int(np.prod(shape)), -1)
    values = [reduce(combine, row) for row in rows]
    return Unrolled(array_of(values, shape), None if kept is None else others.index(kept))


def _dot(unroll: Unroller, node: Any) -> Unrolled:
    """Unroll a matrix product with few terms, such as that of covariates and their coefficients."""
    if isinstance(node.op, Blockwise) and (not isinstance(node.op.core_op, Dot) or node.outputs[0].ndim != 2):
        raise NotElementwiseError(f"{node.op} is not elementwise")
    left, right = (unroll(variable) for variable in node.inputs)
    if left.kept == 1 or right.kept == 0 or (left.kept, right.kept) == (0, 1):
        raise NotElementwiseError("a sum over observations")
    rows, columns = left.elements, right.elements.T
    values = [reduce(pt.add, map(pt.mul, row, column)) for row in rows for column in columns]
    return Unrolled(array_of(values, (len(rows), len(columns))), 0 if left.kept == 0 else right.kept)


def _alloc(unroll: Unroller, node: Any) -> Unrolled:
    lengths = node.outputs[0].type.shape
    if isinstance(node.op, AllocEmpty):
        elements, kept = array_of([pt.constant(0.0)], ()), None
    else:
        elements, kept = unroll(node.inputs[0])
        kept = None if kept is None else kept + len(lengths) - elements.ndim
    long = {axis for axis, length in enumerate(lengths) if not is_short(length)} | ({kept} - {None})
    if len(long) > 1:
        raise NotElementwiseError("several long axes")
    shape = tuple(1 if axis in long else length for axis, length in enumerate(lengths))
    return Unrolled(np.broadcast_to(elements, shape), long.pop() if long else None)


def _same(unroll: Unroller, node: Any) -> Unrolled:
    return unroll(node.inputs[0])


def _tensor_from_scalar(unroll: Unroller, node: Any) -> Unrolled:
    inner = node.inputs[0].owner
    if inner is not None and isinstance(inner.op, ScalarFromTensor):
        return unroll(inner.inputs[0])
    return Unrolled(array_of([node.outputs[0]], ()))


def _shape(unroll: Unroller, node: Any) -> Unrolled:
    lengths = node.inputs[0].type.shape
    lengths = lengths if isinstance(node.op, Shape) else (lengths[node.op.i],)
    if None in lengths:
        raise NotElementwiseError("a length that is not known")
    return Unrolled(array_of([pt.constant(length, dtype="int64") for length in lengths], node.outputs[0].type.shape))


def _inner_graph(unroll: Unroller, node: Any) -> Unrolled:
    if len(node.outputs) > 1:
        raise NotElementwiseError("several outputs")
    inputs = dict(zip(node.op.inner_inputs, map(unroll, node.inputs), strict=True))
    return unroll.inside(inputs)(node.op.inner_outputs[0])


def _advanced_subtensor(unroll: Unroller, node: Any) -> Unrolled:
    """Unroll x[arange(n), i], one of few elements for each observation, or a selection of observations."""
    source, *indices = node.inputs
    elements, kept = unroll(source)
    if source.ndim == 1 and kept == 0 and len(indices) == 1 and indices[0].ndim == 1:
        return Unrolled(array_of([pt.as_tensor(elements.item())[indices[0]]], (1,)), 0)
    if source.ndim != 2 or kept != 0 or len(indices) != 2 or not _counts_observations(indices[0]):
        raise NotElementwiseError("observations are mixed")
    chosen = unroll(indices[1])
    if chosen.kept != 0:
        raise NotElementwiseError("observations are mixed")
    values = [_choose(list(elements[0]), index) for index in chosen.elements.ravel()]
    return Unrolled(array_of(values, chosen.elements.shape), 0)


def _choose(values: list[Any], index: Any) -> Any:
    chosen = values[0]
    for place, value in enumerate(values[1:], start=1):
        chosen = pt.switch(pt.eq(index, place), value, chosen)
    return chosen


def _counts_observations(index: Any) -> bool:
    """Return whether an index is 0, 1, 2, ... along its first axis."""
    while index.owner is not None and isinstance(index.owner.op, Reshape | DimShuffle):
        index = index.owner.inputs[0]
    if isinstance(index, Constant):
        return np.array_equal(np.ravel(index.data), np.arange(index.data.size))
    if index.owner is None or not isinstance(index.owner.op, ARange):
        return False
    start, _, step = index.owner.inputs
    return isinstance(start, Constant) and isinstance(step, Constant) and (start.data, step.data) == (0, 1)


def _check(unroll: Unroller, node: Any) -> Unrolled:
    """Unroll a check of parameters: minus infinity for the observations whose own parameters are outside the domain."""
    if not node.op.can_be_replaced_by_ninf:
        raise NotElementwiseError("a check that raises")
    elements, kept = unroll(node.inputs[0])
    conditions = [part for checked in node.inputs[1:] for part in _conditions(checked)]
    for condition in map(unroll, conditions):
        if condition.kept is not None and kept is None:
            raise NotElementwiseError("a check of other observations")
        unsure = [each for each in condition.elements.ravel() if not always_holds(each)]
        if not unsure:
            continue
        holds = reduce(pt.and_, unsure)
        elements = array_of([pt.switch(holds, value, -np.inf) for value in elements.ravel()], elements.shape)
    return Unrolled(elements, kept)


def _conditions(variable: Any) -> list[Any]:
    """Return the conditions that an "all" combines."""
    node = variable.owner
    if node is not None and isinstance(node.op, MakeVector | ScalarFromTensor):
        return [part for source in node.inputs for part in _conditions(source)]
    if node is not None and isinstance(node.op, CAReduce) and node.op.scalar_op == ps.and_ and node.op.axis is None:
        return _conditions(node.inputs[0])
    return [variable]


RULES: dict[Any, Callable[[Unroller, Any], Unrolled]] = {
    Elemwise: _elementwise,
    DimShuffle: _dimshuffle,
    Join: _join,
    MakeVector: _make_vector,
    Subtensor: _subtensor,
    IncSubtensor: _set_subtensor,
    CumOp: _cumulative,
    CAReduce: _reduction,
    Dot: _dot,
    Blockwise: _dot,
    Alloc: _alloc,
    AllocEmpty: _alloc,
    ScalarFromTensor: _same,
    TensorFromScalar: _tensor_from_scalar,
    Shape: _shape,
    Shape_i: _shape,
    OpFromGraph: _inner_graph,
    AdvancedSubtensor: _advanced_subtensor,
    CheckParameterValue: _check,
}
