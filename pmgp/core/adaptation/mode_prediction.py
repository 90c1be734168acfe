"""A start for the approximation, predicted from theta.

The posterior mode f^(theta), where Newton's method starts, and the sites of expectation propagation are smooth
functions of theta. While the chain tunes, they are regressed on powers of theta; afterwards the coefficients are
constants, so that a start predicted from theta' leaves q a function of theta' alone, which a start at the current
state's mode would not. On the crabs data two of Newton's steps are left of six. Without coefficients, all fits start
from one place (`SameStart`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial, reduce
from itertools import combinations_with_replacement
from operator import itemgetter, mul
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

__all__ = ["ModePredictor", "Predictor", "SameStart"]

RIDGE = 1e-6


class Predictor(Protocol):
    """Says where the approximation starts at a theta."""

    def predict(self, theta: np.ndarray) -> np.ndarray | None:
        """A mode, or sites: (size,); None where nothing is known."""
        ...


class SameStart(NamedTuple):
    """One start for all theta: (size,)."""

    start: np.ndarray

    def predict(self, theta: np.ndarray) -> np.ndarray:
        """That one."""
        return self.start


@dataclass
class ModePredictor:
    """Least squares of modes (or sites) on theta, accumulated as normal equations.

    Parameters
    ----------
    dimension : int
        Length of theta.
    size : int
        Length of what is predicted: n for a mode, 2n for sites.
    location : (dimension,) array
    scale : (dimension,) array
        Theta is standardized with these before its powers are taken.

    Attributes
    ----------
    gram : (p, p) array
    cross : (p, size) array
    coefficients : (p, size) array or None
        None until :meth:`solve` was called with enough data.
    """

    dimension: int
    size: int
    location: np.ndarray
    scale: np.ndarray
    count: int = 0
    gram: np.ndarray = field(init=False)
    cross: np.ndarray = field(init=False)
    coefficients: np.ndarray | None = None

    def __post_init__(self) -> None:
        self._units = list(zip(self.location.tolist(), self.scale.tolist(), strict=True))
        p = len(_monomials(self.dimension))
        self.gram = np.zeros((p, p))
        self.cross = np.zeros((p, self.size))

    def features(self, theta: np.ndarray) -> np.ndarray:
        """Monomials of the standardized theta, up to cubes in one or two dimensions and squares in more: (p,)."""
        # A few numbers, for which Python's functions take less time than NumPy's.
        standardized = [
            (x - location) / scale for x, (location, scale) in zip(theta.tolist(), self._units, strict=True)
        ]
        z = [-6.0 if x < -6.0 else min(x, 6.0) for x in standardized]
        z.append(1.0)
        return np.array(list(reduce(partial(map, mul), [factors(z) for factors in _factors(self.dimension)])))

    def add(self, theta: np.ndarray, mode: np.ndarray) -> None:
        """Take in one pair of theta (dimension,) and mode (size,)."""
        x = self.features(theta)
        self.gram += np.outer(x, x)
        self.cross += np.outer(x, mode)
        self.count += 1

    def solve(self) -> None:
        """Fit the coefficients, once there are at least twice as many pairs as features."""
        if self.count < 2 * len(self.gram):
            return
        penalized = self.gram + RIDGE * self.count * np.eye(len(self.gram))
        self.coefficients = cho_solve(cho_factor(penalized), self.cross)

    def predict(self, theta: np.ndarray) -> np.ndarray | None:
        """Predicted mode (size,), or None before a fit."""
        if self.coefficients is None:
            return None
        return self.features(theta).dot(self.coefficients)


def _monomials(dimension: int) -> list[tuple[int, ...]]:
    """Which elements are multiplied; an extra one, the constant 1, brings in those of lower order."""
    return list(combinations_with_replacement(range(dimension + 1), 3 if dimension <= 2 else 2))


@cache
def _factors(dimension: int) -> list[Callable[[list[float]], Any]]:
    """What takes the first factor of every monomial from the elements, the second of every one, and so on."""
    return [itemgetter(*places) for places in zip(*_monomials(dimension), strict=True)]
