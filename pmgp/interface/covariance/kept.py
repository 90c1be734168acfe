"""Products with K: from elements that are kept where memory allows it, and otherwise computed for each product."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from pmgp.interface.covariance.executor import MomentParts

# Rows of a band, and columns of it that are computed at a time: this many elements stay in the second-level cache.
HEIGHT, WIDTH = 256, 128
# With fewer points, products in double precision take little of the time.
FEWEST = 4_000
# Largest change of K by rounding, over the smallest noise, for which single precision is used.
NEGLIGIBLE = 0.1

Precision = type[np.float64] | type[np.float32]
Tile = Callable[[slice, slice], np.ndarray]


def bytes_of(size: int, precision: Precision = np.float64) -> int:
    """Return the memory for the elements of a matrix with `size` rows, on and above the diagonal."""
    elements = sum((rows.stop - rows.start) * (size - rows.start) for rows in _bands(size))
    return elements * np.dtype(precision).itemsize


def negligible(error: float, noise: np.ndarray) -> tuple[float, bool]:
    """Return how much rounding errors of elements change K, and whether that is little compared with the noise."""
    change = error * len(noise) ** 0.5
    return change, bool(change <= NEGLIGIBLE * noise.min())


class Bands:
    """The elements of a symmetric matrix in bands of rows, each from the diagonal on."""

    def __init__(self, bands: list[np.ndarray]) -> None:
        self._bands = bands

    @classmethod
    def of(cls, tile: Tile, size: int, precision: Precision = np.float64) -> Bands:
        """Compute the bands with `tile`, which returns the elements in some rows and columns, given by slices."""
        return cls([_band(tile, rows, size, precision) for rows in _bands(size)])

    def rounded(self) -> Bands:
        """Return the elements in single precision."""
        return Bands([band.astype(np.float32) for band in self._bands])

    def product(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply the matrix by columns, (n, k) -> (n, k); sums over bands are in double precision.

        Vectors are rows of factors and products, since BLAS is up to twice as fast with these.
        """
        given = np.ascontiguousarray(vectors.T, dtype=self._bands[0].dtype)
        total = np.zeros(given.shape)
        for rows, band in zip(_bands(len(vectors)), self._bands, strict=True):
            total[:, rows] += given[:, rows.start :] @ band.T
            total[:, rows.stop :] += given[:, rows] @ band[:, len(band) :]
        return total.T


class Products:
    """Products of K with columns, (n, k) -> (n, k).

    The first product computes all elements, and keeps them if they take at most `memory` bytes.
    """

    def __init__(self, parts: MomentParts, memory: float) -> None:
        self._parts, self._memory = parts, memory
        self._keeping = bytes_of(len(parts.mean)) <= memory
        self._bands: Bands | None = None

    @np.errstate(all="ignore")
    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply K by columns."""
        return self._elements().product(vectors) if self._keeping else self._parts.product(vectors)

    def quick(self, noise: np.ndarray) -> Products:
        """Return products with elements in single precision, if memory suffices for these too and K changes little."""
        size = len(noise)
        if self._keeping and size < FEWEST:
            return self
        rounded = np.finfo(np.float32).eps / 2.0 * self._parts.diagonal(slice(0, size)).max()
        kept = self._keeping * bytes_of(size) + bytes_of(size, np.float32)
        return _Rounded(self) if kept <= self._memory and negligible(rounded, noise)[1] else self

    def __str__(self) -> str:
        """Return how products are computed, in words."""
        return "by NumPy, with K in float64, " + ("kept" if self._keeping else "computed again for each product")

    def _elements(self) -> Bands:
        if self._bands is None:
            self._bands = self._computed()
        return self._bands

    def _computed(self) -> Bands:
        return Bands.of(self._parts.tile, len(self._parts.mean))


class _Rounded(Products):
    """Products with the elements of others in single precision, for which there is memory."""

    def __init__(self, exact: Products) -> None:
        super().__init__(exact._parts, np.inf)
        self._exact = exact

    def __str__(self) -> str:
        return "by NumPy, with K in float32, kept"

    def _computed(self) -> Bands:
        if self._exact._keeping:
            return self._exact._elements().rounded()
        return Bands.of(self._parts.tile, len(self._parts.mean), np.float32)


def _bands(size: int) -> Iterator[slice]:
    return (slice(start, min(start + HEIGHT, size)) for start in range(0, size, HEIGHT))


def _band(tile: Tile, rows: slice, size: int, precision: Precision) -> np.ndarray:
    band = np.empty((rows.stop - rows.start, size - rows.start), precision)
    for start in range(rows.start, size, WIDTH):
        columns = slice(start, min(start + WIDTH, size))
        band[:, start - rows.start : columns.stop - rows.start] = tile(rows, columns)
    return band
