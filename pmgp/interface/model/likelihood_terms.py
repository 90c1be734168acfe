"""The single terms of log p(y|f, theta), and the latent value to which each of them belongs.

The observations of a PyMC model may be in several variables and potentials, of any shape and in any order, and a latent
value may be observed several times or not at all. A term changes only when its latent value changes. So a few
evaluations give the index of that value: for each binary digit of the index, f is moved where the digit is one, and
where it is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from pmgp.interface.graphs.theta_function import NumpyFunction

# The tolerance relative to a term: vectorized functions differ from each other in the last digits.
SAME = 1e-9
# The number of elements of f that NumPy processes at once.
BLOCK = 8192


class LikelihoodTerms:
    """The terms of log p(y|f, theta) as a function of rows of f, and the latent value of each.

    `evaluate` takes rows (draws, n) and theta, and returns an array of shape (draws, ...) for each name. With several
    latent vectors, rows are (draws, number n), and a term may depend on the values with one index in all of them.
    :meth:`locate` finds whether each term depends on at most one latent value (`separate`), then its `index` (terms,);
    whether the sum of all terms is a sum over latent values (`additive`, None if no sum was finite); and whether each
    term was finite for some f (`possible`). :meth:`find_divisible` finds whether the terms of some latent
    values can be computed without the others.
    """

    def __init__(self, names: list[str], evaluate: Callable[..., list[np.ndarray]], number: int = 1) -> None:
        self.names = names
        self._number = number
        self._evaluate = evaluate
        self.separate = False
        self.additive: bool | None = None
        self.possible = True
        self.index = np.empty(0, int)
        self._places: csr_array | None = None
        self.divisible = False
        self._anywhere = np.empty(0)

    def refresh_data(self) -> None:
        """Read the data again; compiled functions read them at each call anyway."""
        if isinstance(self._evaluate, NumpyFunction):
            self._evaluate.refresh_data()

    @property
    def in_order(self) -> bool:
        """Whether there is one term for each latent value, in the order of f."""
        return self.separate and self._places is None

    def by_name(self, rows: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the terms in the shapes that they have in the model: (draws, n) to (draws, ...) for each name."""
        return dict(zip(self.names, self._evaluate(rows, theta), strict=True))

    def flat(self, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return all terms in one row: (draws, n) to (draws, terms)."""
        parts = [part.reshape(len(rows), -1) for part in self._in_blocks(rows, theta)]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _in_blocks(self, rows: np.ndarray, theta: np.ndarray) -> list[np.ndarray]:
        """Return the terms, computed for so few rows at once that intermediate arrays stay in the processor's cache."""
        if rows.size <= BLOCK or not isinstance(self._evaluate, NumpyFunction):
            return self._evaluate(rows, theta)
        step = max(1, BLOCK // rows.shape[1])
        blocks = [self._evaluate(rows[start : start + step], theta) for start in range(0, len(rows), step)]
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

    def sites(self, rows: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return log p(y|f, theta) for each latent value: (draws, n) to (draws, n). Terms must be separate."""
        values = self.flat(rows, theta)
        return values if self._places is None else self._places.dot(values.T).T

    def part(self, rows: np.ndarray, theta: np.ndarray, sites: Any) -> np.ndarray:
        """Return log p(y|f, theta) for some sites, (draws, number s) to (draws, s), after :meth:`find_divisible`."""
        if self.divisible:
            n = len(self._anywhere) // self._number
            parts = self._evaluate.at_elements(sites, n, rows, theta)  # type: ignore[attr-defined]
            return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)
        whole = np.tile(self._anywhere, (len(rows), 1))
        whole[:, self._columns(sites)] = rows
        return self.sites(whole, theta)[:, sites]

    def _columns(self, sites: Any) -> np.ndarray:
        """Return the places of the values of sites in rows of all: (number s,)."""
        return np.arange(self._anywhere.size).reshape(self._number, -1)[:, sites].ravel()

    def find_divisible(self, probes: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Find out whether the terms of some latent values can be computed without the others: `divisible`."""
        self._anywhere, self.divisible = probes[0][1], False
        if self.separate and isinstance(self._evaluate, NumpyFunction):
            n = self._anywhere.size // self._number
            self.divisible = all(
                self._same_in_part(f, theta, sites)
                for theta, f, _ in probes
                for sites in (slice(0, n // 3 + 1), slice(n // 2, n))
            )

    def _same_in_part(self, f: np.ndarray, theta: np.ndarray, sites: slice) -> bool:
        rows = np.stack([f, f + 0.1])
        expected = self.sites(rows, theta)[:, sites]
        own, n = np.ascontiguousarray(rows[:, self._columns(sites)]), f.size // self._number
        try:
            parts = self._evaluate.at_elements(sites, n, own, theta)  # type: ignore[attr-defined]
        except (ValueError, IndexError):
            return False
        same_shape = all(part.shape == expected.shape for part in parts)
        return same_shape and bool(np.allclose(np.sum(parts, axis=0), expected, rtol=SAME, atol=SAME, equal_nan=True))

    def locate(self, probes: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> None:
        """Find the latent value of each term, and what holds for all, from probes: theta, f and moves of f."""
        theta, f, _ = probes[0]
        n = f.size // self._number
        masks = np.tile(binary_masks(n), self._number)
        with np.errstate(all="ignore"):
            values = [self.flat(np.vstack([f, f + by * masks, f + by]), theta) for theta, f, by in probes]
        self.possible = bool(np.isfinite(values).any(axis=(0, 1)).all())
        ones, zeros = np.split(np.any([moved(rows[:-1]) for rows in values], axis=0), 2)
        self.separate = not np.any(ones & zeros)
        found = [additive(rows) for rows in values if np.isfinite(rows).all()]
        self.additive = all(found) if found else None
        # A term that does not depend on f is assigned to its own position.
        index = np.where((ones | zeros).any(axis=0), (1 << np.arange(len(ones))) @ ones, self._own_positions(f, theta))
        self.index = np.minimum(index, n - 1)
        self._places = _scatter(self.index, n) if self.separate else None

    def _own_positions(self, f: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Return the position of each term in its array if that is a vector of n, and zero otherwise."""
        parts = self._evaluate(f[None, :], theta)
        n = f.size // self._number
        positions = [np.arange(n) if part.shape == (1, n) else np.zeros(part.size, int) for part in parts]
        return np.concatenate(positions)


def moved(values: np.ndarray) -> np.ndarray:
    """Return where rows differ from the first one: (1 + rows, terms) to (rows, terms).

    Rows without a finite term say nothing: PyMC checks parameters of a distribution together, so that one impossible
    value makes all terms impossible.
    """
    known = np.isfinite(values).any(axis=1, keepdims=True)
    return known[0] & known[1:] & ~np.isclose(values[1:], values[0], rtol=SAME, atol=SAME, equal_nan=True)


def additive(values: np.ndarray) -> bool:
    """Return whether the sum of all terms is a sum over latent values, from terms at moved f: (2 + 2 digits, terms).

    The first row is at f, the last at f moved everywhere, and the others at f moved as in :func:`binary_masks`. A sum
    over latent values changes by as much in the last row as in the two rows of a digit together. Every two latent
    values differ in some digit, so that a term of both shows.
    """
    first, ones, zeros, last = np.split(values.sum(axis=1), [1, len(values) // 2, -1])
    return bool(np.allclose(ones - first, last - zeros, rtol=0.0, atol=SAME * np.abs(values).sum(axis=1).max()))


def binary_masks(n: int) -> np.ndarray:
    """Return rows that are one where a binary digit of the index is one, then where it is zero: (2 digits, n)."""
    digits = max(1, (n - 1).bit_length())
    ones = (np.arange(n) >> np.arange(digits)[:, None]) & 1
    return np.concatenate([ones, 1 - ones]).astype(float)


def _scatter(index: np.ndarray, n: int) -> csr_array | None:
    """Return the matrix (n, terms) that adds each term to its latent value, or None if it is the identity."""
    if np.array_equal(index, np.arange(n)):
        return None
    return csr_array((np.ones(index.size), (index, np.arange(index.size))), shape=(n, index.size))
