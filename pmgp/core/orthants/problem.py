"""A Gaussian vector between limits, as the user gives it, and centered with unit variances, as the methods use it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pmgp.core.numerics.arrays import refuse_masked

# Largest differences between the two triangles of a covariance that are taken for rounding errors: on the scale of
# correlations, and relative to the largest element.
ASYMMETRY, ROUNDING = 1e-8, 1e-13


@dataclass(frozen=True, eq=False)
class TruncatedNormal:
    """v ~ N(mean, covariance) given lower <= v <= upper.

    `lower`, `upper`, `mean` (n,); `covariance` (n, n): symmetric.
    """

    lower: np.ndarray
    upper: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray

    @classmethod
    def checked(cls, lower: Any, upper: Any, mean: Any, covariance: Any) -> TruncatedNormal:
        """Return a problem after checks of the arguments; scalars stand for all elements.

        Raises ValueError for shapes that do not match, NaN, an infinite mean, crossed limits, and a covariance that is
        not symmetric or has a negative variance.
        """
        covariance = _symmetric(covariance)
        n = len(covariance)
        mean = _vector("mean", mean, n)
        if not np.isfinite(mean).all():
            raise ValueError(f"mean must be finite, found {_first(mean, ~np.isfinite(mean))}")
        lower, upper = _vector("lower", lower, n), _vector("upper", upper, n)
        crossed = np.flatnonzero(lower > upper)
        if crossed.size:
            i = crossed[0]
            raise ValueError(f"lower must not exceed upper, but lower[{i}] = {lower[i]} and upper[{i}] = {upper[i]}")
        return cls(lower, upper, mean, covariance)

    @property
    def size(self) -> int:
        """The number of variables n."""
        return len(self.mean)

    @cached_property
    def scale(self) -> np.ndarray:
        """The standard deviations, with one in place of zero: (n,)."""
        variance = self.covariance.diagonal()
        return np.sqrt(np.where(variance > 0.0, variance, 1.0))

    @cached_property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The limits of (v - mean) / scale: two (n,) arrays."""
        return (self.lower - self.mean) / self.scale, (self.upper - self.mean) / self.scale

    @cached_property
    def correlation(self) -> np.ndarray:
        """The covariance of (v - mean) / scale: (n, n), C order."""
        scaled = np.ascontiguousarray(self.covariance / self.scale[:, None])
        scaled /= self.scale
        return scaled

    @property
    def impossible(self) -> bool:
        """Whether the probability is zero, because an interval is empty or a constant lies outside its limits."""
        lower, upper = self.limits
        constant = self.covariance.diagonal() == 0.0
        outside = (lower > 0.0) | (upper < 0.0)
        at_infinity = np.isposinf(lower) | np.isneginf(upper)
        return bool(np.any(np.where(constant, outside, self.lower == self.upper) | at_infinity))

    @property
    def free(self) -> np.ndarray:
        """Whether each variable has no limit, or no variance: (n,) of bool."""
        lower, upper = self.limits
        return (np.isneginf(lower) & np.isposinf(upper)) | (self.covariance.diagonal() == 0.0)

    def restored(self, values: np.ndarray) -> np.ndarray:
        """Return standardized draws in the units of v, moved back between the limits after rounding: (k, n)."""
        lower, upper = self.limits
        inside = (values >= lower) & (values <= upper)
        draws = self.mean + self.scale * values
        return np.where(inside, np.clip(draws, self.lower, self.upper), draws)


def _symmetric(covariance: Any) -> np.ndarray:
    refuse_masked("covariance", covariance)
    matrix = np.asarray(covariance, dtype=float)
    if matrix.ndim == 0:
        matrix = matrix[None, None]
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
        raise ValueError(f"covariance must be a square matrix, not of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError(f"covariance must be finite, found {_first(matrix, ~np.isfinite(matrix))}")
    variance = matrix.diagonal()
    if (variance < 0.0).any():
        raise ValueError(f"covariance must be positive semidefinite, found a variance {_first(variance, variance < 0)}")
    difference = np.abs(matrix - matrix.T)
    # On the scale of correlations, so that the units of other variables do not matter.
    deviation = np.sqrt(variance)
    excess = difference - ASYMMETRY * np.outer(deviation, deviation)
    if excess.max() > ROUNDING * np.abs(matrix).max():
        i, j = np.unravel_index(np.argmax(excess), matrix.shape)
        raise ValueError(
            f"covariance must be symmetric, but element ({i}, {j}) is {matrix[i, j]} and ({j}, {i}) is {matrix[j, i]}"
        )
    return 0.5 * (matrix + matrix.T)


def _vector(name: str, value: Any, n: int) -> np.ndarray:
    refuse_masked(name, value)
    vector = np.asarray(value, dtype=float)
    if vector.ndim > 1 or (vector.ndim == 1 and len(vector) != n):
        raise ValueError(f"{name} has shape {vector.shape}, but the covariance has {n} rows; give a scalar or ({n},)")
    vector = np.broadcast_to(vector, (n,))
    if np.isnan(vector).any():
        raise ValueError(f"{name} must not be NaN, found {_first(vector, np.isnan(vector))}")
    return vector


def _first(values: np.ndarray, wrong: np.ndarray) -> str:
    """Return the first wrong value, and its position."""
    index = np.argwhere(wrong)[0]
    place = str(index[0]) if index.size == 1 else str(tuple(index.tolist()))
    return f"{values[tuple(index)]} at {place}"
