"""Indices of groups and times that point beyond the last element of a variable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

FOR_NEW_GROUPS = (
    "For new groups and times give the variable dims, such as dims='group', and lengthen them before the prediction, "
    "for example with model.set_dim('group', 12, coord_values=...). A map cannot be lengthened: pm.CAR and pm.ICAR "
    "have the areas of W"
)


def beyond_the_last(model: pm.Model) -> str | None:
    """Return what is wrong with an index in the model's data that points beyond the last element, or None."""
    for variable in ancestors([*model.observed_RVs, *model.potentials]):
        if variable.owner is None or not isinstance(variable.owner.op, AdvancedSubtensor):
            continue
        indexed, *indices = variable.owner.inputs
        for axis, place in enumerate(variable.owner.op.idx_list):
            values = _values(indices[place]) if isinstance(place, int) else np.empty(0, int)
            length = _length(model, indexed, axis) if values.size else None
            if length is None:
                continue
            for row, *rest in np.argwhere((values >= length) | (values < -length)):
                of = "" if indexed.name is None else f" of {indexed.name!r}"
                name = "" if indices[place].name is None else f" in {indices[place].name!r}"
                return (
                    f"an index{of}{name} is {values[row, *rest]} in row {row}, which is beyond the last element of "
                    f"{length}: they are counted from 0. {FOR_NEW_GROUPS}"
                )
    return None


def _values(index: Any) -> np.ndarray:
    """Return an array of integers, which is empty for an index that is no such data."""
    if not isinstance(index, Constant | SharedVariable):
        return np.empty(0, int)
    found = np.asarray(index.data if isinstance(index, Constant) else index.get_value(borrow=True))
    return found if found.dtype.kind in "iu" and found.ndim else np.empty(0, int)


def _length(model: pm.Model, indexed: TensorVariable, axis: int) -> int | None:
    static = indexed.type.shape[axis]
    dims = model.named_vars_to_dims.get(indexed.name)
    if static is not None or dims is None or dims[axis] is None:
        return static
    return int(model.dim_lengths[dims[axis]].eval())
