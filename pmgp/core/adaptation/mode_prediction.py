"""A start for the approximation, predicted from theta.

The posterior mode f^(theta), which Newton's method searches, and the sites of expectation propagation are smooth
functions of theta. During tuning they are regressed on powers of theta. Afterwards the coefficients are constants: q at
theta', fitted from the start predicted there, is a function of theta' alone. With a start at the current state's mode
it would not be. On the crabs data Newton's method then takes two steps instead of six. With few pairs only a plane is
fitted. Without coefficients, all fits have the same start (`SameStart`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import combinations_with_replacement
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pmgp.core.numerics.compiled.loading import compiled, vectors
from pmgp.core.numerics.storable import storable

RIDGE = 1e-6
# In units of the scale: elements of theta are clipped at this distance from the location.
FARTHEST = 6.0


class Predictor(Protocol):
    """Predict the approximation's start from theta."""

    def predict(self, theta: np.ndarray) -> np.ndarray | None:
        """Return a mode, or sites, (size,); None if nothing is known."""


@storable
class SameStart(NamedTuple):
    """One start for all theta: (size,)."""

    start: np.ndarray

    def predict(self, theta: np.ndarray) -> np.ndarray:
        """Return the stored start, whatever theta is."""
        return self.start


@storable
@dataclass
class ModePredictor:
    """Least squares of modes (or sites) on theta, accumulated as normal equations.

    - `dimension`: length of theta
    - `size`: length of the prediction: n for a mode, 2n for sites
    - `location`, `scale` (dimension,): theta is standardized with these before its powers are taken

    `gram` (p, p); `cross` (p, size); `coefficients` (p, size) or None: set when :meth:`solve` was called with enough
    data.
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
        p = len(_monomials(self.dimension))
        self.gram = np.zeros((p, p))
        self.cross = np.zeros((p, self.size))

    def features(self, theta: np.ndarray) -> np.ndarray:
        """Return monomials of the standardized theta, up to cubes in one or two dimensions, squares in more: (p,)."""
        factors = _monomials(self.dimension)
        features = np.empty(len(factors))
        compiled("prediction.features")(*vectors(theta, self.location, self.scale), FARTHEST, factors, features)
        return features

    def add(self, theta: np.ndarray, mode: np.ndarray) -> None:
        """Take in one pair of theta (dimension,) and mode (size,)."""
        x = self.features(theta)
        self.gram += np.outer(x, x)
        self.cross += np.outer(x, mode)
        self.count += 1

    def solve(self) -> None:
        """Fit the coefficients if there are twice as many pairs as features; otherwise those of a plane."""
        for chosen in (np.arange(len(self.gram)), _linear(self.dimension)):
            if self.count >= 2 * len(chosen):
                penalized = self.gram[np.ix_(chosen, chosen)] + RIDGE * self.count * np.eye(len(chosen))
                self.coefficients = np.zeros(self.cross.shape)
                self.coefficients[chosen] = cho_solve(cho_factor(penalized), self.cross[chosen])
                return

    def predict(self, theta: np.ndarray) -> np.ndarray | None:
        """Return the predicted mode, (size,); None before a fit."""
        if self.coefficients is None:
            return None
        return self.features(theta).dot(self.coefficients)


@cache
def _monomials(dimension: int) -> np.ndarray:
    """Return the factors of each monomial, (p, 3) or (p, 2); an extra element, the constant 1, gives lower orders."""
    return np.array(list(combinations_with_replacement(range(dimension + 1), 3 if dimension <= 2 else 2)))


@cache
def _linear(dimension: int) -> np.ndarray:
    """Return the indices of the monomials of degree at most one: (dimension + 1,)."""
    return np.flatnonzero((_monomials(dimension) < dimension).sum(axis=1) <= 1)
