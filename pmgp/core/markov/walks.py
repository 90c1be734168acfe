"""Particles of q that grow element by element, backwards in time or in the order of elimination.

A triangular factor gives the distribution of each element of x given those after it. A site is passed as soon as all
elements on which it depends are drawn. In time a block depends only on the next one, so resampling leaves the
earlier parts of paths in place and records the ancestors. On another pattern an element may depend on anything that was
drawn before, so resampling moves whole columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pmgp.core.markov.loading import loop


class Group(NamedTuple):
    """Elements that are drawn together, and the sites that can be passed after them.

    - `begin`, `end`: range of the blocks in time, or of the elements in the order of elimination
    - `design`: rows of A for these sites, with the columns from `begin` on; None for a chain, which has its own loading
    """

    begin: int
    end: int
    sites: Any
    design: Any = None


class Walk(Protocol):
    """Particles whose paths grow group by group."""

    @property
    def groups(self) -> Sequence[Group]:
        """Groups, in the order in which they are drawn."""

    def grow(self, rng: np.random.Generator, group: Group) -> np.ndarray:
        """Draw a group's elements, and return the deviations of f from its mean at its sites: (draws, sites)."""

    def resample(self, rng: np.random.Generator, group: Group, chosen: np.ndarray, log_weights: np.ndarray) -> None:
        """Continue from the chosen particles; a path that is kept may get another ancestor, drawn with the weights."""

    def path(self, index: int) -> np.ndarray:
        """Return a final particle's deviation of x from its mean."""


class ChainWalk:
    """Particles that are drawn backwards in time.

    - `factor`: factor of q's precision
    - `draws`, `width`: number of particles, and of sites in a group
    - `kept` (T, d): the first particle's path less q's mean, if it is kept. It gets a new ancestor when particles are
      resampled (Lindsten, Jordan and Schon 2014)
    """

    def __init__(self, pattern: Any, factor: Any, draws: int, width: int, kept: np.ndarray | None = None) -> None:
        self.pattern, self.factor, self.kept = pattern, factor, kept
        self.groups = pattern.groups(width)
        self._following = np.zeros((pattern.shape[1], draws))
        self._passed: list[tuple[Group, np.ndarray, np.ndarray | None]] = []

    def grow(self, rng: np.random.Generator, group: Group) -> np.ndarray:
        """Draw a group's blocks, and return the deviations of f from its mean at its sites: (draws, sites)."""
        values = self.factor.grown(rng, slice(group.begin, group.end), self._following)
        if self.kept is not None:
            values[:, :, 0] = self.kept[group.begin : group.end]
        self._following = values[0]
        self._passed.append((group, values, None))
        where, loading = self.pattern.where[group.sites] - group.begin, self.pattern.loading[group.sites]
        out = np.empty((values.shape[2], len(where)))
        loop("blocks.observe_particles")(where, np.ascontiguousarray(loading), values, out)
        return out

    def resample(self, rng: np.random.Generator, group: Group, chosen: np.ndarray, log_weights: np.ndarray) -> None:
        """Record the ancestors."""
        if self.kept is not None:
            before = group.begin - 1
            log_ratio = self.factor.log_transition(before, self.kept[before], self._following)
            chosen[0] = _drawn(rng, log_weights + log_ratio)
        self._passed[-1] = *self._passed[-1][:2], chosen
        self._following = np.ascontiguousarray(self._following[:, chosen])

    def path(self, index: int) -> np.ndarray:
        """Return a final particle's deviation of x, traced back through its ancestors: (T, d)."""
        out = np.empty(self.pattern.shape)
        for group, values, chosen in reversed(self._passed):
            index = index if chosen is None else chosen[index]
            out[group.begin : group.end] = values[:, :, index]
        return out


class SparseWalk:
    """Particles that are drawn backwards in the order of elimination.

    `factor`: factor of q's precision; `draws`, `width`: number of particles, and of elements in a group; `kept` (m,):
    the first particle's path less q's mean, if it is kept.
    """

    def __init__(self, pattern: Any, factor: Any, draws: int, width: int, kept: np.ndarray | None = None) -> None:
        self.pattern, self.factor = pattern, factor
        self.groups = pattern.groups(width)
        self._kept = None if kept is None else factor.normals(kept)
        self._values = np.zeros((pattern.shape[0] + 1, draws))

    def grow(self, rng: np.random.Generator, group: Group) -> np.ndarray:
        """Draw a group's elements, and return the deviations of f from its mean at its sites: (draws, sites)."""
        part = slice(group.begin, group.end)
        self._values[part] = rng.standard_normal((group.end - group.begin, self._values.shape[1]))
        if self._kept is not None:
            self._values[part, 0] = self._kept[part]
        self.factor.drawn(group.begin, group.end, self._values)
        return np.ascontiguousarray((group.design @ self._values[group.begin : -1]).T)

    def resample(self, rng: np.random.Generator, group: Group, chosen: np.ndarray, log_weights: np.ndarray) -> None:
        """Copy the columns of the chosen particles."""
        self._values[group.begin :] = self._values[group.begin :, chosen]

    def path(self, index: int) -> np.ndarray:
        """Return a final particle's deviation of x, in x's own order: (m,)."""
        out = np.empty(self.pattern.shape)
        out[self.pattern.order] = self._values[:-1, index]
        return out


def _drawn(rng: np.random.Generator, log_weights: np.ndarray) -> int:
    sums = np.cumsum(np.exp(log_weights - log_weights.max()))
    return min(int(sums.searchsorted(rng.random() * sums[-1], side="right")), len(sums) - 1)
