"""Sampling states as bytes and back, without pickle: arrays in NumPy's format, and JSON that says where they belong.

Reading creates only instances of registered classes (`pmgp.core.numerics.storable`) and of the loaded state classes of
PyMC's contract. No name in a file is imported or called, and no constructor runs: objects get their attributes back. So
a file from elsewhere can do no worse than give wrong numbers.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast

import numpy as np
from pymc.step_methods.state import DataClassState
from pymc.util import RandomGeneratorState

from pmgp.core.numerics.storable import qualified_name, storable, storable_types

storable(RandomGeneratorState)

PLAIN = (bool, int, float, str)
BIT_GENERATORS = {"MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64"}
"""The allowed bit generators: PyMC looks the class up in NumPy by the name in the state."""


def to_bytes(value: Any) -> bytes:
    """Return a value made of plain values, arrays, containers and registered classes as bytes.

    Anything else raises a TypeError that names the place in the value.
    """
    arrays: list[np.ndarray] = []
    tree = json.dumps(_encoded(value, arrays, "the value"))
    buffer = io.BytesIO()
    for array in [np.frombuffer(tree.encode(), dtype=np.uint8), *arrays]:
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def from_bytes(data: bytes) -> Any:
    """Return what `to_bytes` wrote, bit for bit.

    A type that is unknown, or has other attributes in this version, raises a ValueError.
    """
    buffer = io.BytesIO(data)
    arrays = []
    while buffer.tell() < len(data):
        arrays.append(np.lib.format.read_array(buffer, allow_pickle=False))
    return _decoded(json.loads(arrays[0].tobytes()), arrays[1:])


def _known_types() -> dict[str, type]:
    return storable_types() | {qualified_name(kind): kind for kind in _subclasses(DataClassState)}


def _subclasses(kind: type) -> Iterator[type]:
    subclass: type
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def _encoded(value: Any, arrays: list[np.ndarray], place: str) -> Any:
    if value is None or type(value) in PLAIN:
        return value
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        return _encoded_array(value, arrays)
    if isinstance(value, np.dtype):
        return {"dtype": value.str}
    if type(value) in (list, tuple):
        items = [_encoded(item, arrays, f"{place}[{index}]") for index, item in enumerate(value)]
        return {type(value).__name__: items}
    if type(value) is dict:
        return {
            "dict": [[_key(key, place), _encoded(item, arrays, f"{place}[{key!r}]")] for key, item in value.items()]
        }
    name = qualified_name(type(value))
    if name not in _known_types():
        raise TypeError(
            f"{place} cannot be stored: its type, {name}, is not registered. If it is a class of yours, a dataclass or "
            "NamedTuple, decorate it with @pmgp.steps.storable; the state of a step method derives from PyMC's "
            "DataClassState; turn anything else into numbers, text, arrays, lists, tuples or dictionaries"
        )
    items = [[key, _encoded(item, arrays, f"{place}.{key}")] for key, item in _attributes(value).items()]
    return {"type": name, "attributes": items}


def _key(key: Any, place: str) -> Any:
    if type(key) not in PLAIN:
        raise TypeError(f"{place} cannot be stored: its key {key!r} is not a plain value")
    return key


def _attributes(value: Any) -> dict[str, Any]:
    """Return all attributes of an instance, including those that its constructor derived."""
    names = getattr(value, "_fields", ())
    return dict(zip(names, value, strict=True)) if isinstance(value, tuple) else vars(value)


def _encoded_array(value: np.ndarray | np.generic, arrays: list[np.ndarray]) -> Any:
    """Encode an array with the order of its axes in memory, on which rounding in a product depends."""
    arrays.append(np.asarray(value))
    if isinstance(value, np.generic):
        return {"scalar": len(arrays) - 1}
    order = sorted(range(value.ndim), key=lambda axis: -abs(value.strides[axis]))
    arrays[-1] = np.ascontiguousarray(value.transpose(order)).reshape([value.shape[axis] for axis in order])
    return {"array": len(arrays) - 1, "axes": order}


def _decoded(tree: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(tree, dict):
        return tree
    match tree:
        case {"array": index, "axes": axes}:
            return arrays[index].transpose(np.argsort(axes))
        case {"scalar": index}:
            return arrays[index][()]
        case {"dtype": name}:
            return np.dtype(name)
        case {"list": items}:
            return [_decoded(item, arrays) for item in items]
        case {"tuple": items}:
            return tuple(_decoded(item, arrays) for item in items)
        case {"dict": items}:
            return {key: _decoded(item, arrays) for key, item in items}
        case {"type": name, "attributes": items}:
            return _made(name, {key: _decoded(item, arrays) for key, item in items})
    raise ValueError(f"an entry of an unknown kind: {', '.join(tree)}")


def _made(name: str, attributes: dict[str, Any]) -> Any:
    kind = _known_types().get(name)
    if kind is None:
        raise ValueError(
            f"it holds a {name}, which is not registered here: import the module that defines it, with "
            "@pmgp.steps.storable, or use the version of the package that wrote the run"
        )
    if not _fits(kind, list(attributes)):
        raise ValueError(f"it holds a {name} with other attributes than those of this version")
    if kind is RandomGeneratorState and attributes["bit_generator_state"]["bit_generator"] not in BIT_GENERATORS:
        raise ValueError("it holds the state of an unknown random generator")
    if issubclass(kind, tuple):
        return tuple.__new__(kind, attributes.values())
    instance = object.__new__(kind)
    instance.__dict__.update(attributes)
    return instance


def _fits(kind: type, given: list[str]) -> bool:
    """Return whether a class has the given attributes: a tuple's fields in order, or a dataclass's and derived ones.

    A field that the constructor does not take may be missing, since its default is an attribute of the class.
    """
    if issubclass(kind, tuple):
        return given == list(getattr(kind, "_fields", ()))
    own = fields(cast(Any, kind))
    taken = {field.name for field in own if field.init}
    derived = {field.name for field in own} | {name for name in given if name.startswith("_")}
    return taken <= set(given) <= derived
