"""Points of a model that a user gives: checks of values for some variables, on their own scale or transformed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.initial_point import make_initial_point_expression, make_initial_point_fn
from pymc.pytensorf import compile as compile_pytensor
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import INTERPRETED


def value_point(model: pm.Model, point: dict[str, Any] | None) -> dict[str, np.ndarray]:
    """Return initial values of all value variables, with the user's values in place of those that `point` names.

    The names may be transformed or not; a scalar stands for an array of equal elements. A ValueError names variables
    that the model does not have or that are given on both scales, and values that are not numbers of the variable's
    shape in its support.
    """
    given = dict(point or {})
    natural = {rv.name: rv for rv in model.free_RVs}
    transformed = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    _check_names(given, natural, transformed)
    own = {name: _array(name, given[name], rv.type.shape) for name, rv in natural.items() if name in given}
    start = make_initial_point_fn(
        model=model, overrides={natural[name]: value for name, value in own.items()}, return_transformed=True
    )(0)
    for name, value in own.items():
        _check_support(model, natural[name], value, start[model.rvs_to_values[natural[name]].name])
    rest = {name: value for name, value in given.items() if name not in natural}
    return {**start, **{name: _finite(name, _array(name, value, start[name].shape)) for name, value in rest.items()}}


def initial_values(model: pm.Model, variables: Sequence[TensorVariable]) -> dict[str, np.ndarray]:
    """Return PyMC's initial values of some free variables, transformed, by the names of their value variables."""
    graphs = make_initial_point_expression(
        free_rvs=variables,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies=model.rvs_to_initial_values,
        return_transformed=True,
    )
    values = compile_pytensor([], graphs, mode=INTERPRETED)()
    return {model.rvs_to_values[rv].name: value for rv, value in zip(variables, values, strict=True)}


def _check_names(given: dict[str, Any], natural: dict[str, Any], transformed: dict[str, TensorVariable]) -> None:
    unknown = sorted(set(given) - set(natural) - set(transformed))
    if unknown:
        known = ", ".join(sorted(set(natural) | set(transformed)))
        raise ValueError(f"the model has no free variables {', '.join(unknown)}; those are: {known}")
    for name, rv in transformed.items():
        if name != rv.name and name in given and rv.name in given:
            raise ValueError(f"{rv.name!r} is given twice, as {rv.name!r} and as {name!r}; give one of them")


def _array(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return a value as floats, in the shape of its variable as far as that is known."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} = {value!r} is not a number or an array of numbers") from error
    if array.ndim == 0 and None not in shape:
        return np.full(shape, array)
    same = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not same:
        raise ValueError(f"{name} = {value!r} has shape {array.shape}, but the variable has shape {shape}")
    return array


def _finite(name: str, value: np.ndarray) -> np.ndarray:
    if not np.isfinite(value).all():
        raise ValueError(f"{name} = {value} is not finite")
    return value


def _check_support(model: pm.Model, rv: TensorVariable, value: np.ndarray, on_the_line: np.ndarray) -> None:
    """Refuse a value that its transform and the inverse do not restore, since it is outside the support."""
    _finite(rv.name, value)
    transform = model.rvs_to_transforms[rv]
    inside = bool(np.isfinite(on_the_line).all())
    if inside and transform is not None and not set(ancestors(rv.owner.inputs)) & set(model.free_RVs):
        back = transform.backward(pt.as_tensor(on_the_line), *rv.owner.inputs).eval(mode="FAST_COMPILE")
        inside = np.allclose(back, value)
    if not inside:
        raise ValueError(f"{rv.name} = {value} does not lie inside the support of its prior")
