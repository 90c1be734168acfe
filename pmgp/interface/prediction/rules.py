"""Rules that trace the axis that runs over observations from the result of each operation to its inputs.

A rule gets the graph's builder (`NewPoints`), a variable, the axes of it that run over observations, and the selections
(`f[index]`) between it and the observations. It builds the inputs, and applies the operation to them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.truncated import TruncatedRV
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import ViewOp
from pytensor.compile.rewriting import inline_ofg_node
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, AllocDiag, Eye, Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.type_other import NoneTypeT
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.distributions.means import base_of

Axes = frozenset[int]
Level = tuple[Any, ...]
NOWHERE: Axes = frozenset()
ALL = slice(None)


class NotPointwiseError(ValueError):
    """The value of a graph at a new point is not determined; the message says why."""


def apply(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Return the variable at new points, using the rule of its operation."""
    for kind, rule in RULES.items():
        if isinstance(variable.owner.op, kind):
            return rule(graph, variable, axes, level)
    raise _unknown(variable)


def _unknown(variable: TensorVariable) -> NotPointwiseError:
    return NotPointwiseError(
        f"pmgp does not know whether the operation {variable.owner.op} acts on each observation by itself"
    )


def _aligned(graph: Any, axes: Axes, operand: TensorVariable, ndim: int, core: int = 0) -> Axes:
    """Return the operand's axes that match axes of a result with `ndim` axes, if both align before `core` last axes."""
    shift = ndim - (operand.ndim - core)
    return frozenset(axis - shift for axis in axes if axis >= shift and graph.runs(operand, axis - shift))


def _elementwise(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    if variable.owner.op.scalar_op == ps.second:
        return _filled(graph, variable, axes, level)
    inputs = [graph.build(i, _aligned(graph, axes, i, variable.ndim), level) for i in variable.owner.inputs]
    return variable.owner.op.make_node(*inputs).outputs[variable.owner.outputs.index(variable)]


def _filled(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for a value in the shape of another variable, whose own values do not matter."""
    value = variable.owner.inputs[1]
    value = graph.build(value, _aligned(graph, axes, value, variable.ndim), level)
    return pt.alloc(value, *[graph.number if i in axes else variable.shape[i] for i in range(variable.ndim)])


def _shuffled(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    order = variable.owner.op.new_order
    inner = frozenset(order[axis] for axis in axes if order[axis] != "x")
    return variable.owner.op(graph.build(variable.owner.inputs[0], inner, level))


def has_squeeze(variable: TensorVariable, leaves: set[TensorVariable]) -> bool:
    """Return whether a graph drops an axis of length one."""
    nodes = [other.owner for other in ancestors([variable], blockers=leaves) if other.owner is not None]
    return any(isinstance(node.op, DimShuffle) and node.op.drop for node in nodes)


def _reduced(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    (operand,) = variable.owner.inputs
    gone = variable.owner.op.axis
    kept = [axis for axis in range(operand.ndim) if gone is not None and axis not in gone]
    return variable.owner.op(graph.build(operand, frozenset(kept[axis] for axis in axes), level))


def _allocated(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    value, *lengths = variable.owner.inputs
    value = graph.build(value, _aligned(graph, axes, value, variable.ndim), level)
    shape = [graph.number if i in axes else graph.build(length, NOWHERE, level) for i, length in enumerate(lengths)]
    return pt.alloc(value, *shape)


def _identity(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    offset = variable.owner.inputs[2]
    if axes != {0, 1} or not isinstance(offset, Constant) or int(offset.data) != 0:
        raise _unknown(variable)
    return pt.eye(graph.number, dtype=variable.type.dtype)


def _diagonal(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    op = variable.owner.op
    if axes != {0, 1} or variable.ndim != 2 or op.offset != 0:
        raise _unknown(variable)
    return op(graph.build(variable.owner.inputs[0], frozenset([0]), level))


def _reshaped(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for a vector as a row or a column, or the reverse: all other lengths are one."""
    operand, shape = variable.owner.inputs
    ones = [length == 1 for length in shape.data] if isinstance(shape, Constant) else variable.type.broadcastable
    wide = [axis for axis, one in enumerate(ones) if not one]
    long = [axis for axis, one in enumerate(operand.type.broadcastable) if not one] or [0]
    if len(long) != 1 or len(wide) != 1 or not set(wide) <= axes:
        raise _unknown(variable)
    built = graph.build(operand, frozenset(long), level)
    order = [long[0] if axis == wide[0] else "x" for axis in range(variable.ndim)]
    others = [axis for axis in range(operand.ndim) if axis != long[0]]
    return pt.specify_broadcastable(built, *others).dimshuffle(order) if others else built.dimshuffle(order)


def _product(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for matrix products: rows of the result are the first factor's, columns are the second's."""
    node = variable.owner
    first, second = node.inputs
    batch = frozenset(axis for axis in axes if axis < variable.ndim - 2)
    rows = frozenset([first.ndim - 2]) if variable.ndim - 2 in axes else NOWHERE
    columns = frozenset([second.ndim - 1]) if variable.ndim - 1 in axes else NOWHERE
    demands = [
        rows | _aligned(graph, batch, first, variable.ndim),
        columns | _aligned(graph, batch, second, variable.ndim),
    ]
    # Latent values first: mixing them is a better reason to report than unknown weights.
    order = sorted((0, 1), key=lambda place: not graph.depends(node.inputs[place]))
    built = {place: graph.build(node.inputs[place], demands[place], level) for place in order}
    return node.op(built[0], built[1])


def _batched(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    node = variable.owner
    if isinstance(node.op.core_op, Dot):
        return _product(graph, variable, axes, level)
    batch = node.op.batch_ndim(node)
    if any(axis >= batch for axis in axes):
        raise _unknown(variable)
    inputs = [
        graph.build(operand, _aligned(graph, axes, operand, batch, len(core)), level)
        for operand, core in zip(node.inputs, node.op.inputs_sig, strict=True)
    ]
    return node.op.make_node(*inputs).outputs[node.outputs.index(variable)]


def _joined(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    node = variable.owner
    if node.op.axis % variable.ndim in axes:
        raise NotPointwiseError("observations are joined from several parts")
    return node.op(*[graph.build(part, axes, level) for part in node.inputs])


def _first_input(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    return graph.build(variable.owner.inputs[0], axes, level)


def _inlined(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    return graph.build(graph.inlined(variable), axes, level)


def inner_graph(variable: TensorVariable) -> TensorVariable:
    """Return the inner graph of an output of a composite operation."""
    outputs = inline_ofg_node(variable.owner)
    return outputs[variable.owner.outputs.index(variable)]


def _sliced(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for slices and single elements; a part of the observations is a selection."""
    operand = variable.owner.inputs[0]
    indices = _indices(variable)
    inner, result, kept = set(), 0, list(indices)
    for axis, index in enumerate(indices):
        if not isinstance(index, slice):
            continue
        if result in axes:
            inner.add(axis)
            kept[axis] = ALL
        result += 1
    selects = any(indices[axis] != ALL for axis in inner)
    deeper = (*level, selection_of(variable)) if selects else level
    return graph.build(operand, frozenset(inner), deeper)[tuple(kept)]


def _indexed(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for arrays of indices, without an index that selects a latent value for each observation.

    The same selection from another variable is left out too, since that variable's values belong to latent values, like
    covariates of a place.
    """
    operand = variable.owner.inputs[0]
    indices = _indices(variable)
    places = [axis for axis, index in enumerate(indices) if not isinstance(index, slice)]
    width = max(indices[place].ndim for place in places)
    start = places[0]
    if places != list(range(start, start + len(places))):
        raise _unknown(variable)
    own = {axis if axis < start else axis - width + len(places) for axis in axes if not start <= axis < start + width}
    demanded = frozenset(axis - start for axis in axes if start <= axis < start + width)
    if demanded and is_selection(variable) and _leads_to_latent_values(graph, variable, indices[start]):
        deeper = (*level, selection_of(variable))
        return graph.build(operand, frozenset({*own, start}), deeper)
    chosen = [
        graph.build(index, _aligned(graph, demanded, index, width), level) if axis in places else index
        for axis, index in enumerate(indices)
    ]
    return graph.build(operand, frozenset(own), level)[tuple(chosen)]


def _leads_to_latent_values(graph: Any, variable: TensorVariable, index: TensorVariable) -> bool:
    dependent = graph.depends(variable.owner.inputs[0])
    return dependent or selection_of(variable) in graph.selections or index.dtype == "bool"


def is_selection(variable: TensorVariable) -> bool:
    """Return whether an operation is a slice, or indexes with one vector and nothing else."""
    if variable.owner is None or not isinstance(variable.owner.op, Subtensor | AdvancedSubtensor):
        return False
    arrays = [index for index in _indices(variable) if not isinstance(index, slice)]
    others = [index for index in _indices(variable) if isinstance(index, slice) and index != ALL]
    if isinstance(variable.owner.op, Subtensor):
        return True
    return len(arrays) == 1 and arrays[0].ndim == 1 and not others


def selection_of(variable: TensorVariable) -> Any:
    """Return a key that graphs share if they select the same elements."""
    return tuple(_signature(index) for index in _indices(variable) if not (isinstance(index, slice) and index == ALL))


def _signature(index: Any) -> Any:
    if isinstance(index, slice):
        return ("slice", *map(_signature, (index.start, index.stop, index.step)))
    if isinstance(index, Constant):
        return np.asarray(index.data).tolist().__repr__()
    return index


def _indices(variable: TensorVariable) -> list[Any]:
    """Return one index for each axis of the indexed variable."""
    operand, *inputs = variable.owner.inputs
    given = list(indices_from_subtensor(inputs, variable.owner.op.idx_list))
    return given + [ALL] * (operand.ndim - len(given))


def _random(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for a random variable, possibly composite, with new parameters and its own generator."""
    node = variable.owner
    op = node.op
    dimensions, batch = op.ndims_params, variable.ndim - op.ndim_supp
    if dimensions is None or any(axis >= batch for axis in axes):
        raise _unknown(variable)
    parameters = [
        graph.build(parameter, _aligned(graph, axes, parameter, batch, core), level)
        for parameter, core in zip(op.dist_params(node), dimensions, strict=True)
    ]
    size = op.size_param(node)
    lengths = None
    if size is not None and not isinstance(size.type, NoneTypeT):
        lengths = [graph.number if axis in axes else size[axis] for axis in range(batch)]
    if isinstance(op, RandomVariable):
        return op.make_node(pt.random.shared_rng(seed=None), lengths, *parameters).outputs[1]
    if not hasattr(op, "rv_op"):
        raise _unknown(variable)
    # Not all of these take a size.
    return op.rv_op(*parameters) if lengths is None else op.rv_op(*parameters, size=lengths)


def _truncated(graph: Any, variable: TensorVariable, axes: Axes, level: Level) -> TensorVariable:
    """Apply the rule for a random variable that is drawn until it lies between limits."""
    op, (*_, lower, upper) = variable.owner.op, variable.owner.inputs
    base = _random(graph, base_of(variable), axes, level)
    limits = [graph.build(limit, _aligned(graph, axes, limit, variable.ndim), level) for limit in (lower, upper)]
    return op.rv_op(base, *limits, op.max_n_steps)


RULES: dict[Any, Callable[[Any, TensorVariable, Axes, Level], TensorVariable]] = {
    Elemwise: _elementwise,
    DimShuffle: _shuffled,
    CAReduce: _reduced,
    Alloc: _allocated,
    Eye: _identity,
    AllocDiag: _diagonal,
    Reshape: _reshaped,
    Dot: _product,
    Blockwise: _batched,
    Join: _joined,
    Subtensor: _sliced,
    AdvancedSubtensor: _indexed,
    ViewOp | CheckAndRaise | SpecifyShape: _first_input,
    TruncatedRV: _truncated,
    RandomVariable | SymbolicRandomVariable: _random,
    OpFromGraph: _inlined,
}
