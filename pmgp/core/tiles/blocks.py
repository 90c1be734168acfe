"""A symmetric matrix as square tiles, and sums over its pairs of mirrored tiles, on one device or several.

The tiles of the upper triangle are distributed over the devices in equal shares. Each device adds up its own share, and
one all-reduce adds the sums, so the communication does not grow with the number of tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec

from pmgp.core.tiles.devices import AXIS


class TileInputs(NamedTuple):
    """Inputs of a tile, which are trees of arrays.

    Attributes
    ----------
    fixed
        Arrays that each tile sees as a whole, and that have no gradients.
    shared
        Arrays of floats that each tile sees as a whole.
    rows, columns
        Arrays of floats with n rows, of which a tile sees those of its own rows and columns.
    """

    fixed: Any
    shared: Any
    rows: Any
    columns: Any


Tile = Callable[[TileInputs, Any, Any], Any]
"""From inputs of one tile, and the numbers of its rows (h,) and columns (w,), to the elements of K there, (h, w)."""


def blocks_of(size: int, side: int) -> int:
    """Return the number of blocks of `side` rows that cover `size` rows."""
    return -(-size // side)


def blocked(tree: Any, side: int) -> Any:
    """Cut arrays into blocks of rows: (n, ...) -> (blocks, side, ...); the last row fills up the last block."""
    return jax.tree.map(lambda array: _cut(array, side, "edge"), tree)


def blocked_vectors(vectors: Any, side: int) -> Any:
    """Cut columns of vectors into blocks of rows, filled up with zeros: (n, k) -> (blocks, side, k)."""
    return _cut(vectors, side, "constant")


def joined(array: Any, size: int) -> Any:
    """Return the first `size` rows of an array in blocks: (blocks, side, ...) -> (n, ...)."""
    return array.reshape(-1, *array.shape[2:])[:size]


def _cut(array: Any, side: int, mode: Any) -> Any:
    number = blocks_of(len(array), side)
    margins = [(0, number * side - len(array)), *[(0, 0)] * (array.ndim - 1)]
    return jnp.pad(array, margins, mode=mode).reshape(number, side, *array.shape[1:])


def places(block: Any, side: int, size: int) -> Any:
    """Return the numbers of the rows of a block; rows beyond the last one are the last one again."""
    return jnp.minimum(block * side + jnp.arange(side, dtype=jnp.int32), size - 1)


def of_blocks(cut: TileInputs, i: Any, j: Any) -> TileInputs:
    """Return the inputs of the tile of two blocks, from inputs whose rows and columns are cut into blocks."""
    rows = jax.tree.map(lambda array: array[i], cut.rows)
    return cut._replace(rows=rows, columns=jax.tree.map(lambda array: array[j], cut.columns))


def pairs(number: int, devices: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return blocks i <= j, and weights of the tile and of its mirror image, in equal numbers for all devices.

    The mirror image of a tile on the diagonal has weight zero, as do the pairs that fill up the last share.
    """
    i, j = (place.astype(np.int32) for place in np.triu_indices(number))
    missing = -len(i) % devices
    own, mirrored = np.pad(np.ones(len(i)), (0, missing)), np.pad((i < j).astype(float), (0, missing))
    return np.pad(i, (0, missing)), np.pad(j, (0, missing)), own, mirrored


def summed(add: Callable[..., Any], zero: Any, given: Any, over: tuple[Any, ...], mesh: Any) -> Any:
    """Return ``add(given, total, *one)`` applied to each element of the arrays `over`, on all devices of a mesh.

    Parameters
    ----------
    add : callable
        Adds to a tree of totals.
    zero
        The totals before.
    given
        A tree of arrays that all devices have.
    over : tuple of arrays
        Their first axes have equal lengths, a multiple of the number of devices.
    mesh : jax.sharding.Mesh or None
        Devices along one axis; None for the device that JAX chooses.
    """

    def share(given: Any, *own: Any) -> Any:
        return jax.lax.scan(lambda total, one: (add(given, total, *one), None), zero, own)[0]

    if mesh is None:
        return share(given, *over)

    def reduced(given: Any, *own: Any) -> Any:
        return jax.lax.psum(share(given, *own), AXIS)

    split, whole = PartitionSpec(AXIS), PartitionSpec()
    specs = (whole, *[split] * len(over))
    return jax.shard_map(reduced, mesh=mesh, in_specs=specs, out_specs=whole, check_vma=False)(given, *over)
