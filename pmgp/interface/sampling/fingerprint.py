"""Fingerprints of models and step methods: a stored run can only be continued with its own.

The fingerprint of a model consists of its variables with shapes and transforms, its observations, and the graph of its
random variables: operations in their order, constants, data. Nothing is compiled for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.step_methods.compound import BlockedStep, CompoundStep, flatten_steps
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import io_toposort

ADDRESS = re.compile(r"0x[0-9a-f]+")


def of_model(model: pm.Model) -> dict[str, Any]:
    """Return the parts of a model that determine its posterior, as plain values.

    These are ``variables``, each with shape, kind of values and transform; ``observed``, each with a digest of its
    values; and ``graph``, a digest of everything else.
    """
    start = model.initial_point(random_seed=0)
    kinds = {model.rvs_to_values[rv].name: kind for rv, kind in model.rvs_to_transforms.items()}
    transforms = {name: None if kind is None else type(kind).__name__ for name, kind in kinds.items()}
    outputs = [*model.basic_RVs, *model.potentials]
    return {
        "variables": {name: [list(v.shape), str(v.dtype), transforms.get(name)] for name, v in start.items()},
        "observed": {rv.name: _digest(_graph([model.rvs_to_values[rv]])) for rv in model.observed_RVs},
        "graph": _digest(_graph(outputs)),
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Return descriptions of the differences between the model of a run and another model."""
    found = [
        _difference(f"{what} {name!r}", one[part].get(name), other[part].get(name))
        for part, what in (("variables", "the variable"), ("observed", "the observed variable"))
        for name in sorted({*one[part], *other[part]})
        if one[part].get(name) != other[part].get(name)
    ]
    if not found and one["graph"] != other["graph"]:
        found.append("its priors, its covariance function, its inputs or other constants are not those of the run")
    return found


def _difference(what: str, was: Any, now: Any) -> str:
    if isinstance(was, str) and isinstance(now, str):
        return f"{what} has other values"
    return f"{what} is {_there(now)}, but was {_there(was)}"


def _there(value: Any) -> str:
    if value is None:
        return "not there"
    if isinstance(value, str):
        return "there"
    transformed = "" if value[2] is None else f", transformed by {value[2]}"
    return f"of shape {tuple(value[0])}, {value[1]}{transformed}"


def of_steps(step: BlockedStep | CompoundStep) -> list[str]:
    """Return a line for each step method, with its class, its variables, and its plain settings and dataclasses."""
    return [_of_step(method) for method in flatten_steps(step)]


def _of_step(method: BlockedStep) -> str:
    changing = {field.name for field in fields(method._state_class) if not field.metadata.get("frozen")}
    settings = {
        name: value
        for name, value in vars(method).items()
        if not name.startswith("_") and name not in changing and (_is_plain(value) or is_dataclass(value))
    }
    names = ", ".join(variable.name for variable in method.vars)
    return f"{type(method).__name__} of {names}: {_described(settings)}"


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _described(value: Any) -> str:
    """Return a description like `repr`, without addresses in memory."""
    if _is_plain(value):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _digest([str(value.dtype), str(value.shape), value.tobytes()])
    if isinstance(value, dict):
        return ", ".join(f"{name}={_described(value[name])}" for name in sorted(value))
    if is_dataclass(value):
        own = {field.name: getattr(value, field.name) for field in fields(value) if field.repr}
        return f"{type(value).__name__}({_described(own)})"
    return type(value).__name__


def _graph(outputs: list[Variable]) -> Iterator[str | bytes]:
    """Yield the operations of a graph in their order, each with the numbers of its inputs, and the graph's leaves."""
    places: dict[Variable, int] = {}
    for node in io_toposort([], outputs):
        for variable in node.inputs:
            if variable not in places:
                yield from _leaf(variable)
                places[variable] = len(places)
        yield ADDRESS.sub("", str(node.op))
        yield repr([places[variable] for variable in node.inputs])
        inner = getattr(node.op, "fgraph", None)
        if inner is not None:
            yield from _graph(inner.outputs)
        for variable in node.outputs:
            places[variable] = len(places)
    for variable in outputs:
        if variable.owner is None:
            yield from _leaf(variable)
        yield str(variable.type)


def _leaf(variable: Variable) -> Iterator[str | bytes]:
    yield str(variable.type)
    if isinstance(variable, Constant):
        yield from _data(variable.data)
    elif isinstance(variable, SharedVariable):
        yield from _data(variable.get_value(borrow=True))


def _data(value: Any) -> Iterator[str | bytes]:
    """Yield the values of an array, and nothing for a random generator, since every model has its own."""
    if isinstance(value, np.random.Generator):
        return
    if hasattr(value, "toarray"):
        value = value.toarray()
    array = np.asarray(value)
    yield f"{array.dtype}{array.shape}"
    yield ADDRESS.sub("", str(value)) if array.dtype.hasobject else np.ascontiguousarray(array).tobytes()


def _digest(parts: Iterable[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
