"""Check the new inputs, and the other data at the new points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import AdvancedSubtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.arrays import numbers, refuse_dates, refuse_masked


def check_inputs(Xnew: Any, X: np.ndarray) -> np.ndarray:
    """Refuse new inputs that do not fit the old ones, X of shape (n, d)."""
    Xnew = numbers("Xnew", Xnew)
    if Xnew.ndim != 2:
        raise ValueError(f"Xnew must be a matrix of shape (m, {X.shape[1]}), not of shape {Xnew.shape}")
    if Xnew.shape[0] == 0:
        raise ValueError("Xnew has no rows: there is nothing to predict")
    if Xnew.shape[1] != X.shape[1]:
        raise ValueError(
            f"Xnew has {Xnew.shape[1]} columns, but the covariance uses {X.shape[1]}; "
            "if active_dims select columns of a plain array, pass the process, which knows them all: gp=gp"
        )
    if not np.isfinite(Xnew).all():
        row, column = np.argwhere(~np.isfinite(Xnew))[0]
        raise ValueError(f"Xnew has a value that is not finite: {Xnew[row, column]} in row {row}, column {column}")
    return Xnew


def check_order(Xnew: Any, model: pm.Model) -> None:
    """Refuse a DataFrame whose columns are the model's features in another order: inputs count by their place."""
    names = [str(name) for name in model.coords.get("feature") or ()]
    given = [str(name) for name in getattr(Xnew, "columns", ())]
    if given != names and sorted(given) == sorted(names):
        raise ValueError(
            f"Xnew has the columns {', '.join(given)}, but the model has its features in the order {', '.join(names)}: "
            f"give Xnew[{names}]"
        )


def check_at(
    at: Any, model: pm.Model, latent: str, inputs: list[Any], observed: list[TensorVariable]
) -> dict[str, np.ndarray]:
    """Refuse data at the new points that the likelihood of f does not use, or that are not numbers."""
    if at is None:
        return {}
    if not isinstance(at, Mapping):
        raise ValueError(f"at must be a dictionary that maps names of pm.Data to values, not {type(at).__name__}")
    data = {str(variable.name): variable for variable in model.data_vars}
    parameters = [parameter for rv in observed for parameter in rv.owner.inputs]
    used = set(ancestors(parameters, blockers=model.basic_RVs))
    checked = {}
    for name, value in at.items():
        if name not in data:
            known = ", ".join(data) or "none"
            raise ValueError(f"at has {name!r}, which is not a pm.Data of the model; those are: {known}")
        if data[name] in inputs:
            raise ValueError(f"at has {name!r}, the inputs of {latent}: Xnew gives them at the new points")
        if data[name] not in used:
            raise ValueError(f"at has {name!r}, which no observed variable that depends on {latent} uses")
        numbers = _numbers(name, value)
        if _is_index(data[name], list(used)):
            _refuse_no_groups(name, numbers)
        checked[name] = as_data(f"at[{name!r}]", numbers, data[name].type.dtype)
    return checked


def _numbers(name: str, value: Any) -> np.ndarray:
    what = f"at[{name!r}]"
    refuse_masked(what, value)
    refuse_dates(what, value)
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} has values that are not numbers: {error}") from error
    # Infinity is a limit, such as that of an observation which is not censored.
    if np.isnan(found).any():
        raise ValueError(f"{what} has a value that is not finite: nan")
    return found


def _is_index(variable: TensorVariable, graphs: list[Any]) -> bool:
    nodes = {one.owner for one in graphs if one.owner is not None}
    return any(isinstance(node.op, AdvancedSubtensor) and variable in node.inputs[1:] for node in nodes)


def _refuse_no_groups(name: str, values: np.ndarray) -> None:
    """Refuse fractions, and negative numbers, which pandas gives for unknown groups, and which count from the end."""
    if (values != np.round(values)).any():
        raise ValueError(
            f"at[{name!r}] has the value {values[values != np.round(values)][0]:g}, which is no index: give numbers of "
            "groups, from 0"
        )
    if (values < 0).any():
        raise ValueError(
            f"at[{name!r}] has the negative index {values[values < 0][0]:g}, which would count from the end: give "
            "numbers of groups, from 0"
        )


def as_data(name: str, numbers: np.ndarray, dtype: str) -> np.ndarray:
    """Return numbers with the type of the model's data, and refuse those that it cannot represent."""
    converted = numbers.astype(dtype)
    changed = numbers[~np.isclose(converted, numbers, rtol=1e-6)]
    if changed.size:
        raise ValueError(
            f"{name} has the value {changed[0]}, but the model's data are of the type {dtype}: give the model numbers "
            "of the type float64"
        )
    return converted
