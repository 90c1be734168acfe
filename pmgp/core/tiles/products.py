"""Products of K with vectors, its gradients contracted with few vectors, and its rectangles, tile by tile.

No array of n by n elements is made. If single precision is used, it is only for the elements of a tile and for its
product with vectors; the sums over tiles are in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pmgp.core.tiles.blocks import (
    Tile,
    TileInputs,
    blocked,
    blocked_vectors,
    blocks_of,
    joined,
    of_blocks,
    pairs,
    places,
    summed,
)

_compiled = partial(jax.jit, static_argnames="self")


# Accelerators round the factors of a product in single precision to fewer digits, unless they are told not to.
_ACCURATE = partial(jax.default_matmul_precision, "highest")


@dataclass(frozen=True)
class Tiles:
    """A symmetric n by n matrix K that a function computes tile by tile.

    Parameters
    ----------
    tile : Tile
    size : int
        Number of rows n.
    side : int
        Number of rows of a tile.
    mesh : jax.sharding.Mesh, optional
        Devices that share the tiles, along one axis with the name `devices.AXIS`.
    """

    tile: Tile
    size: int
    side: int
    mesh: Any = None

    @property
    def _pairs(self) -> tuple[Any, ...]:
        return pairs(blocks_of(self.size, self.side), 1 if self.mesh is None else self.mesh.size)

    def _cut(self, inputs: TileInputs, single: bool = False) -> TileInputs:
        cut = inputs._replace(rows=blocked(inputs.rows, self.side), columns=blocked(inputs.columns, self.side))
        return jax.tree.map(_single, cut) if single else cut

    @partial(jax.jit, static_argnames=("self", "single"))
    def product(self, inputs: TileInputs, vectors: Any, single: bool = False) -> Any:
        """Multiply K by columns, in single precision if `single`: (n, k) -> (n, k)."""
        V = blocked_vectors(vectors, self.side)

        def add(given: Any, total: Any, i: Any, j: Any, own: Any, mirrored: Any) -> Any:
            cut, V = given
            K = self._tile_at(cut, i, j, single)
            with _ACCURATE():
                return total.at[i].add(own * (K @ V[j])).at[j].add(mirrored * (K.T @ V[i]))

        given = self._cut(inputs, single), _single(V) if single else V
        return joined(summed(add, jnp.zeros(V.shape), given, self._pairs, self.mesh), self.size)

    @_compiled
    def gradient_of_pairs(self, inputs: TileInputs, left: Any, right: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of the sum of <a, K b> over pairs of columns, in the shared inputs, rows and columns.

        Parameters
        ----------
        inputs : TileInputs
        left, right : (n, k) array
            a and b.
        """
        cut = self._cut(inputs)

        def add(given: Any, total: Any, i: Any, j: Any, own: Any, mirrored: Any) -> Any:
            cut, left, right = given
            weights = own * (left[i] @ right[j].T) + mirrored * (right[i] @ left[j].T)
            found = self._tile_gradient(cut, i, j, places(j, self.side, self.size), weights)
            return _added(total, found, i, j)

        given = cut, blocked_vectors(left, self.side), blocked_vectors(right, self.side)
        shared, rows, columns = summed(add, _zeros(cut), given, self._pairs, self.mesh)
        return shared, self._folded(rows), self._folded(columns)

    def _tile_gradient(self, cut: TileInputs, i: Any, j: Any, points: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of the weighted sum of a tile's elements, whose columns have the numbers `points`."""

        def inner(shared: Any, rows: Any, columns: Any) -> Any:
            given = cut._replace(shared=shared, rows=rows, columns=columns)
            with _ACCURATE():
                return (weights * self.tile(given, places(i, self.side, self.size), points)).sum()

        own = of_blocks(cut, i, j)
        return jax.grad(inner, (0, 1, 2))(own.shared, own.rows, own.columns)

    def _folded(self, tree: Any) -> Any:
        """Join blocks of gradients; those of rows that fill up the last block are zero, as their weights are."""
        return jax.tree.map(lambda array: joined(array, self.size), tree)

    @_compiled
    def gradient_of_columns(self, inputs: TileInputs, points: Any, weights: Any) -> tuple[Any, Any, Any]:
        """Return the gradients of <weights, K[:, points]>, in the shared inputs, rows and columns.

        Parameters
        ----------
        inputs : TileInputs
        points : (m,) array of int
        weights : (n, m) array
        """
        cut, side = self._cut(inputs), self.side
        there = jax.tree.map(lambda array: array[points], inputs.columns)
        given = cut._replace(columns=blocked(there, side)), blocked(points, side), _cut_weights(weights, side)
        number, groups = given[2].shape[:2]

        def add(given: Any, total: Any, i: Any, g: Any) -> Any:
            cut, points, weights = given
            found = self._tile_gradient(cut, i, g, points[g], weights[i, g])
            return _added(total, found, i, g)

        over = np.divmod(np.arange(number * groups, dtype=np.int32), groups)
        shared, rows, columns = summed(add, _zeros(given[0]), given, over, None)
        at_points = jax.tree.map(lambda array: joined(array, len(points)), columns)
        columns = jax.tree.map(lambda own, found: jnp.zeros(own.shape).at[points].add(found), inputs.columns, at_points)
        return shared, self._folded(rows), columns

    @_compiled
    def rectangle(self, inputs: TileInputs, rows: Any, columns: Any) -> Any:
        """Return some rows and columns of K, given by their numbers: (h,), (w,) -> (h, w)."""
        right = jax.tree.map(lambda array: array[columns], inputs.columns)

        def part(own: Any) -> Any:
            left = jax.tree.map(lambda array: array[own], inputs.rows)
            return self.tile(inputs._replace(rows=left, columns=right), own, columns)

        return joined(jax.lax.map(part, blocked(rows, self.side)), len(rows))

    @_compiled
    def diagonal(self, inputs: TileInputs) -> Any:
        """Return the diagonal of K: (n,)."""
        cut, blocks = self._cut(inputs), jnp.arange(blocks_of(self.size, self.side), dtype=jnp.int32)
        return joined(jax.lax.map(lambda i: jnp.diagonal(self._tile_at(cut, i, i)), blocks), self.size)

    @_compiled
    def rounding(self, inputs: TileInputs) -> Any:
        """Return the largest error of an element in single precision, in the tiles on the diagonal.

        There, each point meets itself, so squared distances lose most of their digits.
        """
        cut, single = self._cut(inputs), self._cut(inputs, True)

        def error(i: Any) -> Any:
            return jnp.abs(self._tile_at(cut, i, i) - self._tile_at(single, i, i, True)).max()

        return jax.lax.map(error, jnp.arange(blocks_of(self.size, self.side), dtype=jnp.int32)).max()

    def _tile_at(self, cut: TileInputs, i: Any, j: Any, single: bool = False) -> Any:
        given = of_blocks(cut, i, j), places(i, self.side, self.size), places(j, self.side, self.size)
        # PyTensor's graphs ask for double precision by name, which JAX then takes for single.
        with jax.enable_x64(not single), _ACCURATE():
            return self.tile(*given)


def _cut_weights(weights: Any, side: int) -> Any:
    """Cut a matrix into tiles, filled up with zeros: (n, m) -> (blocks, groups, side, side)."""
    columns = blocked_vectors(blocked_vectors(weights, side).reshape(-1, weights.shape[1]).T, side)
    groups = len(columns)
    return columns.reshape(groups, side, -1, side).transpose(2, 0, 3, 1)


def _single(tree: Any) -> Any:
    return jax.tree.map(lambda array: array.astype(jnp.float32) if array.dtype == jnp.float64 else array, tree)


def _zeros(cut: TileInputs) -> tuple[Any, Any, Any]:
    return tuple(jax.tree.map(jnp.zeros_like, tree) for tree in (cut.shared, cut.rows, cut.columns))


def _added(total: tuple[Any, Any, Any], found: tuple[Any, Any, Any], i: Any, j: Any) -> tuple[Any, Any, Any]:
    shared, rows, columns = total
    return (
        jax.tree.map(jnp.add, shared, found[0]),
        jax.tree.map(lambda array, more: array.at[i].add(more), rows, found[1]),
        jax.tree.map(lambda array, more: array.at[j].add(more), columns, found[2]),
    )
