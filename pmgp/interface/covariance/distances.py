"""Squared distances of inputs that are far from zero, such as Unix seconds.

PyMC's stationary covariance functions compute |x - x'|^2 as |x|^2 + |x'|^2 - 2 x'x, in units of the length-scale. Ten
million length-scales from zero the terms are 1e14, and a squared distance has an absolute error of 0.1. The distances
stay the same if one vector is subtracted from all inputs, and the terms are then no larger than the distances.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.math import Dot
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.rewriting import is_elementwise

# A column of inputs is far from zero if its mean is this many standard deviations. Nearer ones lose so few digits that
# their graphs are left as they are.
FAR = 100.0


def centered(
    graphs: Sequence[TensorVariable], values: Mapping[TensorVariable, np.ndarray] | None = None
) -> list[TensorVariable]:
    """Return equal graphs, in which squared distances of inputs far from zero are those of centered inputs.

    `values`: of variables that stand for inputs, besides constants and `pymc.Data`.
    """
    known = dict(values or {})
    replacements = {}
    for variable in ancestors(graphs):
        if (found := _centered(variable, known)) is not None:
            replacements[variable] = found
    return graph_replace(list(graphs), replacements) if replacements else list(graphs)


def are_far(inputs: np.ndarray) -> bool:
    """Whether a column of inputs (n, d) is far from zero."""
    return len(inputs) > 0 and bool((np.abs(inputs.mean(axis=0)) > FAR * inputs.std(axis=0)).any())


def _centered(variable: Variable, known: dict[TensorVariable, np.ndarray]) -> TensorVariable | None:
    """Return a squared distance computed from centered inputs; None if a variable is not one of inputs that are far."""
    scaled = _scaled_inputs(variable)
    if scaled is None:
        return None
    (left, of_left), (right, of_right) = (one.owner.inputs for one in scaled)
    far = next((one for one in (right, left) if _is_far(one, known)), None)
    if far is None:
        return None
    forms = (_squared_distance(*scaled, expanded) for expanded in (False, True))
    if not any(equal_computations([variable], [form]) for form in forms):
        return None
    center = far.mean(axis=0, keepdims=True)
    return _squared_distance((left - center) * of_left, (right - center) * of_right)


def _scaled_inputs(variable: Variable) -> tuple[TensorVariable, TensorVariable] | None:
    """Return both inputs, with their length-scales, that may have a variable as their squared distances."""
    if not (is_elementwise(variable, ps.clip) and is_elementwise(terms := variable.owner.inputs[0], ps.add)):
        return None
    products = [one.owner for one in ancestors(terms.owner.inputs[:1]) if one.owner and isinstance(one.owner.op, Dot)]
    if len(products) != 1 or products[0].inputs[1].owner is None:
        return None
    left, right = products[0].inputs[0], products[0].inputs[1].owner.inputs[0]
    return (left, right) if _is_scaled(left) and _is_scaled(right) else None


def _squared_distance(left: TensorVariable, right: TensorVariable, expanded: bool = False) -> TensorVariable:
    """Return squared distances as `pymc.gp.cov.Stationary.square_dist` does; `expanded` as they are at new inputs."""
    of_left, of_right = (pt.sum(pt.square(one), 1) for one in (left, right))
    if expanded:
        sums = of_left[:, None] + of_right[None, :]
    else:
        sums = pt.reshape(of_left, (-1, 1)) + pt.reshape(of_right, (1, -1))
    return pt.clip(-2.0 * pt.dot(left, pt.transpose(right)) + sums, 0.0, np.inf)


def _is_scaled(variable: TensorVariable) -> bool:
    return is_elementwise(variable, ps.mul) and len(variable.owner.inputs) == 2


def _is_far(inputs: TensorVariable, known: dict[TensorVariable, np.ndarray]) -> bool:
    """Whether a column of the tables that inputs are taken from is far from zero; false if other variables are, too."""
    roots = [one for one in ancestors([inputs]) if one.owner is None]
    if not all(one in known or isinstance(one, Constant | SharedVariable) for one in roots):
        return False
    values = [np.asarray(known[one] if one in known else _value(one)) for one in roots]
    return any(are_far(value) for value in values if value.ndim == 2)


def _value(variable: Constant | SharedVariable) -> Any:
    return variable.get_value(borrow=True) if isinstance(variable, SharedVariable) else variable.data
