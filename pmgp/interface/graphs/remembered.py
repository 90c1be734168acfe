"""Rewritten graphs, kept for the next graph with the same operations and the same numbers.

Rewriting takes about a millisecond for each node. Several functions take the same model apart, and a model that is
built again differs from the first only in the identity of its variables.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import wraps
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph.basic import Constant, Variable, clone_get_equiv
from pytensor.graph.traversal import ancestors, graph_inputs, toposort
from pytensor.tensor.variable import TensorVariable

Rewriter = Callable[..., list[TensorVariable]]

KEPT = 32
# Bytes of a graph's constants. PyTensor computes what depends on constants alone; large results should not be kept.
LARGEST = 2**20
# Constants other than arrays whose `repr` shows their whole value; that of a sparse matrix does not.
PLAIN = (type(None), bool, int, float, slice, np.generic)


class _Entry(NamedTuple):
    """Constants of a graph that has been rewritten, and the new graph on roots that stand for those of any other."""

    constants: list[Constant]
    roots: list[Variable]
    outputs: list[Variable]


_entries: OrderedDict[Hashable, _Entry] = OrderedDict()


def remembered(rewrite: Rewriter) -> Rewriter:
    """Let a function that rewrites a list of outputs do so once for graphs of the same operations and numbers.

    Its other arguments are given by name and must be hashable. Its graph is a copy, which it may change.
    """

    @wraps(rewrite)
    def rewritten(outputs: list[TensorVariable], **settings: Hashable) -> list[TensorVariable]:
        roots = [root for root in graph_inputs(outputs) if not isinstance(root, Constant)]
        constants = _constants(outputs)
        if _size(constants) > LARGEST:
            return rewrite(_copy(outputs, roots, roots), **settings)
        digests = [_digest(constant) for constant in constants]
        key = (rewrite, tuple(settings.items()), _structure(outputs, roots, dict(zip(constants, digests, strict=True))))
        entry = _entries.get(key)
        # Arrays may have been changed in place.
        if entry is None or [_digest(constant) for constant in entry.constants] != digests:
            new = rewrite(_copy(outputs, roots, roots), **settings)
            if _size(_constants(new)) > LARGEST:
                return new
            # Shared variables, and with them the data of a model, must not be kept.
            standing = [root.type() for root in roots]
            entry = _Entry(constants, standing, _copy(new, roots, standing))
        _keep(key, entry)
        return _copy(entry.outputs, entry.roots, roots)

    return rewritten


def _keep(key: Hashable, entry: _Entry) -> None:
    """Keep an entry as the one used last, and drop those that were used longest ago."""
    # Not `move_to_end`: another thread may have dropped the entry in between.
    _entries.pop(key, None)
    _entries[key] = entry
    while len(_entries) > KEPT:
        _entries.popitem(last=False)


def _copy(outputs: list[Any], roots: list[Variable], others: list[Variable]) -> list[Any]:
    """Return the graph on other roots; it shares its constants with the first one."""
    memo = dict(zip(roots, others, strict=True))
    clones = clone_get_equiv(roots, outputs, copy_inputs=False, copy_orphans=False, memo=memo)
    return [clones.get(output, output) for output in outputs]


def _structure(outputs: list[Any], roots: list[Variable], digests: dict[Constant, bytes]) -> Hashable:
    """Return the structure that is common to graphs that differ only in the identity and names of their variables."""
    places: dict[Variable, Any] = {root: place for place, root in enumerate(roots)} | digests
    nodes = []
    for node in toposort(outputs):
        nodes.append((node.op, tuple(places[value] for value in node.inputs)))
        for output in node.outputs:
            places[output] = len(places)
    return tuple(root.type for root in roots), tuple(nodes), tuple(places[output] for output in outputs)


def _digest(constant: Constant) -> bytes:
    """Return a few bytes that identify the type, including the shape of an array, and the value of a constant."""
    data = constant.data
    content = np.ascontiguousarray(data).tobytes() if isinstance(data, np.ndarray) else repr(data).encode()
    return blake2b(repr(constant.type).encode() + content, digest_size=16).digest()


def _constants(outputs: list[Any]) -> list[Constant]:
    return [value for value in dict.fromkeys(ancestors(outputs)) if isinstance(value, Constant)]


def _size(constants: list[Constant]) -> float:
    """Return the bytes of constants, which are infinite where one of them has no digest."""
    return sum(_bytes(constant.data) for constant in constants)


def _bytes(data: Any) -> float:
    if isinstance(data, np.ndarray):
        return data.nbytes
    return 0.0 if isinstance(data, PLAIN) else np.inf
