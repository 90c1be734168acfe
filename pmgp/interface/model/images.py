"""Where hyper-parameters map a latent variable linearly, as in chol @ z, and the data see its image alone.

The image u = M(theta) z is the last node above z whose coefficients depend on theta, and which has as many elements as
z. A number before a whole variable needs no map: `linear_nodes` deals with it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.model.likelihood_terms import binary_masks
from pmgp.interface.model.linear_nodes import inputs_read, is_linear, is_made_of, scale_before

# A map may mix this many elements at most, and no more than half of all: the factor of a process mixes all of them.
MOST_MIXED = 30


def image_of(
    terms: list[TensorVariable], value: TensorVariable, others: Sequence[TensorVariable], point: dict[str, np.ndarray]
) -> tuple[TensorVariable, np.ndarray, np.ndarray, tuple[int, ...]] | None:
    """Return the image of a latent variable under a map that depends on theta, its blocks and its shape, or None.

    The places of each block's elements in z, and in u, are (blocks, k), as in :class:`ThetaMap`. `others` are all other
    value variables.
    """
    for node in reversed(_candidates(terms, value, others)):
        reaching = [term for term in terms if value in set(ancestors([term]))]
        if not all(is_made_of(term, [node], [value]) for term in reaching):
            continue
        images = _function(node, value, others, point)
        places = _places(images, np.shape(point[value.name]))
        if places is not None:
            return node, *places, images(np.zeros(places[0].size)).shape
    return None


def _candidates(
    terms: list[TensorVariable], value: TensorVariable, others: Sequence[TensorVariable]
) -> list[TensorVariable]:
    """Return the nodes that are linear in a variable given theta, with coefficients that theta changes."""
    linear: set[Variable] = {value}
    depends, varies = {value}, {value, *others}
    found = []
    for node in io_toposort([value, *others], terms):
        read = [one for one in inputs_read(node) if one in varies]
        varies.update(node.outputs if read else [])
        own = [one for one in read if one in depends]
        if not own:
            continue
        depends.update(node.outputs)
        if not linear.issuperset(own):
            continue
        if is_linear(node, own, varies) or scale_before(node, own, varies) is not None:
            linear.update(node.outputs)
        elif is_linear(node, own, set()):
            linear.update(node.outputs)
            found += node.outputs
    return found


def _function(
    node: TensorVariable, value: TensorVariable, others: Sequence[TensorVariable], point: dict[str, np.ndarray]
) -> Callable[[np.ndarray], np.ndarray]:
    """Return |u| as a function of z, summed over two values of theta, as a coefficient may be zero at one of them."""
    used = [one for one in others if one in set(ancestors([node]))]
    function, rng = Compiler()([value, *used], [node], True), np.random.default_rng(0)
    first = [np.asarray(point[one.name], dtype=one.dtype) for one in used]
    second = [
        np.asarray(one + 0.3 * rng.standard_normal(one.shape), dtype=one.dtype) if one.dtype.kind == "f" else one
        for one in first
    ]
    shape = np.shape(point[value.name])

    def images(z: np.ndarray) -> np.ndarray:
        z = np.ascontiguousarray(np.reshape(z, shape), dtype=value.dtype)
        return np.abs(function(z, *first)[0]) + np.abs(function(z, *second)[0])

    return images


def _places(images: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the places of the blocks in z and in u, or None if u is not a linear function of z in small blocks."""
    size = int(np.prod(shape))
    at_zero = images(np.zeros(size))
    if at_zero.size != size or at_zero.any() or not images(np.random.default_rng(2).uniform(1.0, 2.0, size)).all():
        return None
    index = np.indices(shape).reshape(len(shape), size)
    along = [_along(images, axis, length) for axis, length in zip(index, shape, strict=True)]
    mixed = [axis for axis, found in enumerate(along) if (found < 0).any()]
    kept = [axis for axis in range(len(shape)) if axis not in mixed]
    width = int(np.prod([shape[axis] for axis in mixed]))
    group_of_z, group_of_u = (_numbered([one[axis] for axis in kept], shape, kept, size) for one in (index, along))
    if width > min(MOST_MIXED, size // 2) or (np.bincount(group_of_u, minlength=size // width) != width).any():
        return None
    columns, rows = (np.argsort(one, kind="stable").reshape(-1, width) for one in (group_of_z, group_of_u))
    return columns, rows


def _along(images: Callable[[np.ndarray], np.ndarray], place: np.ndarray, length: int) -> np.ndarray:
    """Return the index along an axis of the elements of z that each element of u depends on, or -1 if it differs."""
    weights = np.random.default_rng(1).uniform(1.0, 2.0, place.size)
    moved = [np.ravel(images(mask[place] * weights)) for mask in binary_masks(length)]
    ones, zeros = np.split(np.array(moved) != 0.0, 2)
    found = (1 << np.arange(len(ones))) @ ones
    return np.where((ones & zeros).any(axis=0), -1, found)


def _numbered(places: list[np.ndarray], shape: tuple[int, ...], axes: list[int], size: int) -> np.ndarray:
    if not axes:
        return np.zeros(size, dtype=int)
    return np.ravel_multi_index(places, [shape[axis] for axis in axes])
