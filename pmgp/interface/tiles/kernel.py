"""K whose products JAX computes, tile by tile, in the memory that is given."""

from __future__ import annotations

from typing import Any, Protocol

import jax
import numpy as np

from pmgp.core.iterative.bars import CovarianceBar
from pmgp.core.numerics.ledger import record
from pmgp.core.tiles.blocks import Tile, TileInputs
from pmgp.core.tiles.memory import Compiled, largest_side, within
from pmgp.core.tiles.products import Tiles
from pmgp.interface.covariance.kept import negligible
from pmgp.interface.tiles.settings import Settings


class Products:
    """Compiled products with K and its gradients, one for each number of columns and each precision."""

    def __init__(self, tile: Tile, settings: Settings) -> None:
        self._tile, self._settings = tile, settings
        self._compiled: dict[tuple[int, int, bool], Compiled] = {}
        self.words = "by JAX"

    def product(self, inputs: TileInputs, vectors: np.ndarray, single: bool) -> np.ndarray:
        """Multiply K by columns: (n, k) -> (n, k).

        The smallest tiles must not take more memory than is given.
        """
        size, number = vectors.shape
        # Conjugate gradients drop columns that have converged: a few numbers of columns serve for all.
        padded = np.zeros((size, 1 << (number - 1).bit_length()))
        padded[:, :number] = vectors
        with jax.enable_x64(True):
            found = self._program(inputs, padded.shape, single).call(inputs, padded)
            return np.asarray(found)[:, :number].astype(float)

    def _program(self, inputs: TileInputs, shape: tuple[int, int], single: bool) -> Compiled:
        key = (*shape, single)
        if key not in self._compiled:
            mesh, memory = self._settings.mesh, self._settings.memory
            self._compiled[key] = within(self._tile, shape[0], mesh, inputs, shape[1], single, memory)
        return self._compiled[key]

    def tiles(self, size: int) -> Tiles:
        """Return the tiles for gradients and parts, as large as those of a product in double precision."""
        sides = [one.tiles.side for (n, _, single), one in self._compiled.items() if n == size and not single]
        return Tiles(self._tile, size, min([largest_side(size), *sides]), self._settings.mesh)

    def gradients(self, inputs: TileInputs, bar: CovarianceBar) -> list[tuple[Any, Any, Any]]:
        """Return gradients in the shared inputs, rows and columns, for pairs of vectors and for columns of K."""
        tiles = self.tiles(len(bar.left))
        with jax.enable_x64(True):
            found = [tiles.gradient_of_pairs(inputs, bar.left, bar.right)] if bar.left.shape[1] else []
            if len(bar.points):
                points = bar.points.astype(np.int32)
                found.append(tiles.gradient_of_columns(inputs, points, bar.weights))
            return jax.tree.map(np.asarray, found)

    def single(self, inputs: TileInputs, noise: np.ndarray, largest: float) -> bool:
        """Decide whether products may be in single precision, and say why in `words`.

        `largest` is the largest variance.
        """
        asked = self._settings.precision
        if asked != "auto":
            self.words = f"by JAX, in {asked}, as precision={asked!r} asks"
            return asked == "float32"
        with jax.enable_x64(True):
            error = float(self.tiles(len(noise)).rounding(inputs))
        change, allowed = negligible(error, noise)
        self.words = (
            f"by JAX, in {'float32' if allowed else 'float64'}: float32 changes elements of K by up to {error:.2g} "
            f"(the largest variance is {largest:.3g}), and {len(noise)} of them together by {change:.2g}, which is "
            f"{'small' if allowed else 'not small'} compared with the smallest noise, {noise.min():.2g}"
        )
        return allowed


class Parts(Protocol):
    """A `core.iterative.preconditioners.Kernel` without products."""

    size: int

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K: (m,) -> (n, m)."""
        ...

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        ...

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K, of shape (n,)."""
        ...


class JaxKernel:
    """K in parts that are computed on request; a `core.iterative.preconditioners.Kernel`.

    The `parts` are in double precision, and serve for all but products, which may be in `single` precision.
    """

    def __init__(self, parts: Parts, products: Products, inputs: TileInputs, single: bool = False) -> None:
        self._parts, self._products, self._inputs, self._single = parts, products, inputs, single
        self.size = parts.size

    def quick(self, noise: np.ndarray) -> JaxKernel:
        """Return K with products in single precision, if that changes little compared with the noise."""
        single = self._products.single(self._inputs, noise, float(self.diagonal().max()))
        return JaxKernel(self._parts, self._products, self._inputs, single)

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply K by columns: (n, k) -> (n, k)."""
        record("matvec", vectors.shape[1])
        return self._products.product(self._inputs, vectors, self._single)

    def columns(self, points: np.ndarray) -> np.ndarray:
        """Return columns of K: (m,) -> (n, m)."""
        return self._parts.columns(points)

    def block(self, where: slice) -> np.ndarray:
        """Return a square block of K: the rows and columns of a slice with a start and a stop."""
        return self._parts.block(where)

    def diagonal(self) -> np.ndarray:
        """Return the diagonal of K, of shape (n,)."""
        return self._parts.diagonal()
