"""Processes in one dimension: x is a sequence of T blocks of d elements, each related only to its neighbors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from pmgp.core.markov.loading import loop
from pmgp.core.markov.walks import ChainWalk, Group


@dataclass(frozen=True, eq=False)
class ChainFactor:
    """The factor of a block tridiagonal precision.

    - `inverse`, `gain` (T, d, d): R_t and G_t: given the next block, a block has the covariance R_t' R_t and the
      regression -G_t on it
    - `log_determinant`: log-determinant of Q
    """

    inverse: np.ndarray
    gain: np.ndarray
    log_determinant: float

    def solve(self, right: np.ndarray) -> np.ndarray:
        """Return Q^-1 b: (T, d) -> (T, d)."""
        out = np.empty(right.shape)
        loop("blocks.solve")(self.inverse, self.gain, np.ascontiguousarray(right), out)
        return out

    def covariances(self) -> np.ndarray:
        """Return the covariances of blocks with themselves, and with the blocks before them: (2, T, d, d)."""
        out = np.empty((2, *self.gain.shape))
        loop("blocks.neighbors")(self.inverse, self.gain, out[0], out[1])
        return out

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw from N(0, Q^-1): (size, T, d)."""
        return self.sample_from(rng.standard_normal((size, self.gain.shape[0] * self.gain.shape[1])))

    def sample_from(self, normals: np.ndarray) -> np.ndarray:
        """Turn standard normals into draws from N(0, Q^-1): (size, T d) -> (size, T, d)."""
        number, d, _ = self.gain.shape
        values = np.array(normals, dtype=np.float64, order="C").reshape(-1, number, d)
        loop("blocks.backward")(self.inverse, self.gain, np.zeros((len(values), d)), values)
        return values

    def grown(self, rng: np.random.Generator, part: slice, following: np.ndarray) -> np.ndarray:
        """Draw some blocks given the block that follows them: (s, d, size).

        - `part`: the blocks
        - `following` (d, size): draws of the block that follows; zeros if there is none
        """
        values = np.empty((part.stop - part.start, *following.shape))
        loop("blocks.grown")(rng, self.inverse[part], self.gain[part], following, values)
        return values

    def log_transition(self, t: int, value: np.ndarray, following: np.ndarray) -> np.ndarray:
        """Return the log density, up to a constant, of block t at `value`, (d,), given block t + 1.

        For draws of block t + 1 of shape (d, size) the result is (size,).
        """
        innovation = value[:, None] + self.gain[t] @ following
        return -0.5 * np.square(np.linalg.solve(self.inverse[t].T, innovation)).sum(axis=0)


@dataclass(frozen=True, eq=False)
class ChainPattern:
    """Blocks in time, and the block on which each site depends.

    The values of a precision are (2, T, d, d): the blocks Q_tt, and the blocks Q_{t,t-1}, the first of which is zero.

    - `where` (n,) of int: the block of each site, from 0 to T - 1, in any order; several sites may have the same block
    - `loading` (n, d): weights of the block's elements: f_i = h_i' x_t + c_i
    - `length`: number of blocks T

    Raises ValueError for blocks that do not exist, and arrays of different lengths.
    """

    where: np.ndarray
    loading: np.ndarray
    length: int
    differentiated: ClassVar[bool] = True

    def __post_init__(self) -> None:
        where = np.ascontiguousarray(self.where, dtype=np.int64)
        loading = np.ascontiguousarray(self.loading, dtype=np.float64)
        if where.ndim != 1 or loading.ndim != 2 or len(where) != len(loading):
            raise ValueError(
                "where and loading must have the shapes (n,) and (n, d), with one row for each site, not "
                f"{where.shape} and {loading.shape}"
            )
        if len(where) and not (where.min() >= 0 and where.max() < self.length):
            raise ValueError(
                f"sites depend on blocks {where.min()} to {where.max()}, but the blocks are 0 to {self.length - 1}"
            )
        object.__setattr__(self, "where", where)
        object.__setattr__(self, "loading", loading)

    @classmethod
    def elements(cls, sites: int, width: int = 1) -> ChainPattern:
        """Return the pattern of a banded precision, in blocks as wide as the band: site i depends on element i."""
        index = np.arange(sites)
        return cls(index // width, np.eye(width)[index % width], -(-sites // width))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of blocks T, and of elements of a block d."""
        return self.length, self.loading.shape[1]

    @property
    def sites(self) -> int:
        """Number of sites n."""
        return len(self.where)

    def factorize(self, values: np.ndarray) -> ChainFactor | None:
        """Return the factor of Q, (2, T, d, d), or None if Q is indefinite."""
        values = np.ascontiguousarray(values, dtype=np.float64)
        inverse, gain = np.empty((2, *values.shape[1:]))
        log_determinant = loop("blocks.factorize")(values[0], values[1], inverse, gain)
        return ChainFactor(inverse, gain, log_determinant) if np.isfinite(log_determinant) else None

    def upper(self) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return rows and columns of the upper triangle of Q, and the position of each element in Q's values."""
        length, d = self.shape
        below, t, i, j = np.indices((2, length, d, d)).reshape(4, -1)
        # Block (t, t - 1), which is stored, is below the diagonal: its transpose is in the upper triangle.
        rows, columns = np.where(below, (t - 1) * d + j, t * d + i), np.where(below, t * d + i, t * d + j)
        chosen = np.flatnonzero(np.where(below, t > 0, i <= j))
        return rows[chosen], columns[chosen], chosen

    def with_sites(self, values: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Return the values of Q + A' W A."""
        out = np.array(values, dtype=np.float64, order="C")
        loop("blocks.add_sites")(self.where, self.loading, np.ascontiguousarray(precision), out[0])
        return out

    def observe(self, x: np.ndarray) -> np.ndarray:
        """Return A x: (..., T, d) -> (..., n)."""
        draws = np.ascontiguousarray(x, dtype=np.float64).reshape(-1, *self.shape)
        out = np.empty((len(draws), self.sites))
        loop("blocks.observe")(self.where, self.loading, draws, out)
        return out.reshape(*x.shape[:-2], self.sites)

    def spread(self, sites: np.ndarray) -> np.ndarray:
        """Return A' b: (n,) -> (T, d)."""
        return np.stack([np.bincount(self.where, sites * h, minlength=self.length) for h in self.loading.T], axis=1)

    def site_variances(self, covariances: np.ndarray) -> np.ndarray:
        """Return the diagonal of A Q^-1 A': (2, T, d, d) -> (n,)."""
        out = np.empty(self.sites)
        loop("blocks.site_variances")(self.where, self.loading, covariances[0], out)
        return out

    @staticmethod
    def product(values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return Q x: (2, T, d, d) and (T, d) -> (T, d)."""
        diagonal, below = values
        out = np.einsum("tij,tj->ti", diagonal, x)
        out[1:] += np.einsum("tij,tj->ti", below[1:], x[:-1])
        out[:-1] += np.einsum("tij,ti->tj", below[1:], x[1:])
        return out

    def drawn_given(self, rng: np.random.Generator, values: np.ndarray, f: np.ndarray) -> np.ndarray | None:
        """Return None, because drawing x given f needs an iterative search."""
        return None

    @staticmethod
    def outer(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the symmetric part of x y' on the pattern: (2, T, d, d)."""
        out = np.zeros((2, *x.shape, x.shape[1]))
        out[0] = 0.5 * (x[:, :, None] * y[:, None, :] + y[:, :, None] * x[:, None, :])
        out[1, 1:] = 0.5 * (x[1:, :, None] * y[:-1, None, :] + y[1:, :, None] * x[:-1, None, :])
        return out

    @staticmethod
    def counted(values: np.ndarray) -> np.ndarray:
        """Return values times one for blocks on the diagonal, and times two for the others."""
        return values * np.array([1.0, 2.0])[:, None, None, None]

    def walk(self, factor: ChainFactor, draws: int, width: int, kept: np.ndarray | None = None) -> ChainWalk:
        """Return particles that are drawn backwards in time."""
        return ChainWalk(self, factor, draws, width, kept)

    def groups(self, width: int) -> list[Group]:
        """Return groups of successive blocks with about `width` sites each, the last blocks first."""
        step = max(1, round(width * self.length / max(1, self.sites)))
        ends = range(self.length, 0, -step)
        return [Group(max(0, end - step), end, self._sites_in(max(0, end - step), end)) for end in ends]

    def _sites_in(self, begin: int, end: int) -> Any:
        order, sorted_blocks = self._in_time
        part = slice(*np.searchsorted(sorted_blocks, [begin, end]))
        return part if order is None else order[part]

    @cached_property
    def _in_time(self) -> tuple[np.ndarray | None, np.ndarray]:
        """The order of the sites in time, or None if they are sorted, and their blocks in that order."""
        if (np.diff(self.where) >= 0).all():
            return None, self.where
        order = np.argsort(self.where, kind="stable")
        return order, self.where[order]
