"""The largest tiles with which a product stays within a given memory, known before it begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from pmgp.core.tiles.blocks import Tile, TileInputs
from pmgp.core.tiles.products import Tiles

SMALLEST = 32
# On a CPU a few tiles of this many rows stay in the cache; an accelerator is idle for most of the time with them.
LARGEST = {"cpu": 256}
LARGEST_ELSEWHERE = 2048


class Compiled(NamedTuple):
    """A product for a number of columns.

    Attributes
    ----------
    tiles : Tiles
    call : callable
        From inputs and vectors to the product.
    memory : int
        Bytes that it takes besides its inputs.
    """

    tiles: Tiles
    call: Any
    memory: int


def within(tile: Tile, size: int, mesh: Any, inputs: TileInputs, columns: int, single: bool, memory: float) -> Compiled:
    """Return a compiled product that takes at most `memory` bytes besides its inputs.

    Parameters
    ----------
    tile : Tile
    size : int
        Number of rows n.
    mesh : jax.sharding.Mesh or None
    inputs : TileInputs
    columns : int
    single : bool
        Whether tiles are in single precision.
    memory : float
        Bytes on each device.

    Raises
    ------
    MemoryError
        If the smallest tiles take more.
    """
    side = largest_side(size)
    vectors = jax.ShapeDtypeStruct((size, columns), jnp.float64)
    while True:
        tiles = Tiles(tile, size, side, mesh)
        call = Tiles.product.lower(tiles, inputs, vectors, single).compile()
        found = call.memory_analysis()
        needed = found.temp_size_in_bytes + found.output_size_in_bytes
        if needed <= memory:
            return Compiled(tiles, call, needed)
        if side <= SMALLEST:
            raise MemoryError(
                f"a product of K with {columns} vectors of {size} points takes {needed / 1e6:.3g} MB besides its "
                f"inputs, even in tiles of {side} rows, and memory= allows {memory / 1e6:.3g}: allow more, "
                "or use fewer probes"
            )
        side = max(SMALLEST, side // 2)


def largest_side(size: int) -> int:
    """Return the number of rows of the largest tiles that are worth trying on JAX's devices."""
    largest = LARGEST.get(jax.devices()[0].platform, LARGEST_ELSEWHERE)
    return max(SMALLEST, min(largest, size))
