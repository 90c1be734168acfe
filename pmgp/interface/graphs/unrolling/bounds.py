"""Bounds on the values of a graph for all inputs, with which checks that always hold are left out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.scalar as ps
from pytensor.graph.basic import Constant
from pytensor.scalar.math import Sigmoid, Softplus
from pytensor.tensor.elemwise import DimShuffle, Elemwise

Bounds = tuple[float, float]
NONE: Bounds = (-np.inf, np.inf)
OF_OPERATIONS: dict[type, Bounds] = {
    Sigmoid: (0.0, 1.0),
    Softplus: (0.0, np.inf),
    ps.Exp: (0.0, np.inf),
    ps.Sqr: (0.0, np.inf),
    ps.Abs: (0.0, np.inf),
}


def always_holds(condition: Any) -> bool:
    """Return whether a comparison is true for all inputs that are numbers."""
    operation, inputs = _elementwise(condition)
    if not isinstance(operation, ps.GE | ps.LE):
        return False
    larger, smaller = (bounds(each) for each in (inputs if isinstance(operation, ps.GE) else inputs[::-1]))
    return larger[0] >= smaller[1]


def bounds(variable: Any) -> Bounds:
    """Return the bounds of a graph's values; they also hold for computed values, since rounding is monotone."""
    if isinstance(variable, Constant):
        values = np.asarray(variable.data)
        return (float(values.min()), float(values.max())) if values.size and not np.isnan(values).any() else NONE
    operation, inputs = _elementwise(variable)
    if isinstance(operation, ps.Identity | ps.Second):
        return bounds(inputs[-1])
    if isinstance(operation, ps.Sub):
        (low, high), (other_low, other_high) = map(bounds, inputs)
        return (low - other_high, high - other_low) if np.isfinite([low, high, other_low, other_high]).all() else NONE
    return OF_OPERATIONS.get(type(operation), NONE)


def _elementwise(variable: Any) -> tuple[Any, list[Any]]:
    """Return the scalar operation that makes a variable, and the inputs of that operation."""
    node = variable.owner
    if node is not None and isinstance(node.op, DimShuffle):
        return ps.identity, node.inputs
    return (node.op.scalar_op, node.inputs) if node is not None and isinstance(node.op, Elemwise) else (None, [])
