"""Storage of a run's state in a file that is replaced as a whole, from which the run continues to the same numbers."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields, is_dataclass
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import jax
import numpy as np


def fingerprint(settings: dict[str, Any], *arrays: np.ndarray) -> str:
    """Return a digest of the settings and the data that a run was started with."""
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def named(value: Any) -> str:
    """Describe a value with text that is the same in every process: functions by their names and what they do."""
    if isinstance(value, partial):
        return repr([named(value.func), *map(_described, value.args), sorted(map(_described, value.keywords.items()))])
    if callable(value):
        return _name(value) + _content(value)
    if is_dataclass(value):
        return repr([(field.name, named(getattr(value, field.name))) for field in fields(value)])
    return repr(value)


def _name(function: Any) -> str:
    return str(getattr(function, "__qualname__", repr(function)))


def _content(function: Any) -> str:
    """Describe the code of a function, its defaults, and the values of variables around it."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    around = [_described(cell.cell_contents) for cell in function.__closure__ or ()]
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    return repr((_described(code), around, [_described(value) for value in defaults]))


def _described(value: Any) -> str:
    """Describe a value without addresses, and sets in one order."""
    if isinstance(value, CodeType):
        return repr((value.co_code, value.co_names, [_described(one) for one in value.co_consts]))
    if isinstance(value, frozenset):
        return repr(sorted(map(_described, value)))
    if isinstance(value, tuple):
        return repr([_described(one) for one in value])
    if isinstance(value, np.ndarray | jax.Array):
        return hashlib.sha256(np.asarray(value).tobytes()).hexdigest()
    if callable(value):
        # Without the variables around it, among which it may be itself.
        return _name(value) + _described(getattr(value, "__code__", None))
    plain = value is None or isinstance(value, bool | int | float | str | bytes)
    return repr(value) if plain else type(value).__qualname__


def store(path: Path, tree: Any, history: list[dict[str, float]], mark: str) -> None:
    """Write the leaves of a tree of arrays, the history and the fingerprint."""
    leaves: dict[str, Any] = {f"leaf_{number}": np.asarray(leaf) for number, leaf in enumerate(jax.tree.leaves(tree))}
    temporary = path.with_name(path.name + ".partial")
    with temporary.open("wb") as file:
        np.savez(file, history=json.dumps(history), fingerprint=mark, **leaves)
    os.replace(temporary, path)


def load(path: Path, template: Any, mark: str) -> tuple[Any, list[dict[str, float]]]:
    """Return the tree, in the template's form, and the history that `store` wrote."""
    with np.load(path) as file:
        if str(file["fingerprint"]) != mark:
            raise ValueError(f"{path} belongs to a run with other settings or data: give another path, or delete it")
        structure = jax.tree.structure(template)
        leaves = [jax.numpy.asarray(file[f"leaf_{number}"]) for number in range(structure.num_leaves)]
        return jax.tree.unflatten(structure, leaves), json.loads(str(file["history"]))
