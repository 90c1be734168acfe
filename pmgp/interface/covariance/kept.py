"""Products with K: from elements that are kept where memory allows it, and otherwise computed for each product."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmgp.interface.covariance.executor import MomentParts

# Rows of a band, and columns of it that are computed at a time: so many elements stay in the second-level cache.
HEIGHT, WIDTH = 256, 128
# With fewer points, products in double precision take little of the time.
FEWEST = 4_000
# Largest change of K by rounding, over the smallest noise: so much may single precision change K + noise.
NEGLIGIBLE = 0.1

Precision = type[np.float64] | type[np.float32]


def bytes_of(size: int, precision: Precision = np.float64) -> int:
    """Return the memory for the elements of a matrix with `size` rows, on and above the diagonal."""
    elements = sum((rows.stop - rows.start) * (size - rows.start) for rows in _bands(size))
    return elements * np.dtype(precision).itemsize


def negligible(error: float, noise: np.ndarray) -> tuple[float, bool]:
    """Return how much rounding errors of elements change K, and whether that is little beside the noise."""
    change = error * len(noise) ** 0.5
    return change, bool(change <= NEGLIGIBLE * noise.min())


class Products:
    """Products of K with columns, (n, k) -> (n, k).

    The first product computes all elements, and keeps them if they take at most `memory` bytes.
    """

    def __init__(self, parts: MomentParts, memory: float) -> None:
        self._parts, self._memory = parts, memory
        self._precision: Precision = np.float64
        self._keeping = bytes_of(len(parts.mean)) <= memory
        self._bands: list[np.ndarray] = []

    @np.errstate(all="ignore")
    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        """Multiply K by columns."""
        if not self._keeping:
            return self._parts.product(vectors)
        total, given = np.zeros(vectors.shape), vectors.astype(self._precision, copy=False)
        for rows, band in zip(_bands(len(vectors)), self._made(), strict=True):
            total[rows] += band @ given[rows.start :]
            total[rows.stop :] += band[:, len(band) :].T @ given[rows]
        return total

    def quick(self, noise: np.ndarray) -> Products:
        """Return products with elements in single precision, if memory suffices for these too and K changes little."""
        size = len(noise)
        if self._keeping and size < FEWEST:
            return self
        rounded = np.finfo(np.float32).eps / 2.0 * self._parts.diagonal(slice(0, size)).max()
        kept = self._keeping * bytes_of(size) + bytes_of(size, np.float32)
        return _InSingle(self, self._parts) if kept <= self._memory and negligible(rounded, noise)[1] else self

    def __str__(self) -> str:
        """Return how products are computed, in words."""
        elements = f"K in {np.dtype(self._precision).name}"
        return f"by NumPy, with {elements}, " + ("kept" if self._keeping else "computed again for each product")

    def _made(self) -> list[np.ndarray]:
        """Return the elements that are kept, by bands of rows."""
        if not self._bands:
            self._bands = [self._band(rows) for rows in _bands(len(self._parts.mean))]
        return self._bands

    def _band(self, rows: slice) -> np.ndarray:
        """Return the elements of some rows, from the diagonal on."""
        size = len(self._parts.mean)
        band = np.empty((rows.stop - rows.start, size - rows.start), self._precision)
        for start in range(rows.start, size, WIDTH):
            columns = slice(start, min(start + WIDTH, size))
            band[:, start - rows.start : columns.stop - rows.start] = self._parts.tile(rows, columns)
        return band


class _InSingle(Products):
    """Products with the elements of others, rounded to single precision."""

    def __init__(self, exact: Products, parts: MomentParts) -> None:
        super().__init__(parts, np.inf)
        self._exact, self._precision = exact, np.float32

    def _band(self, rows: slice) -> np.ndarray:
        if not self._exact._keeping:
            return super()._band(rows)
        return self._exact._made()[rows.start // HEIGHT].astype(np.float32)


def _bands(size: int) -> Iterator[slice]:
    return (slice(start, min(start + HEIGHT, size)) for start in range(0, size, HEIGHT))
