"""A likelihood of linear predictors, of which several may be the same latent value.

Observations that share a row of the design share an element of f. The likelihood knows an element for each observation,
eta_i = f_{k(i)}; its terms are summed over the observations of each element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from pmgp.core.numerics.quadrature import TiltedMoments, tilted_moments


@dataclass(frozen=True, eq=False)
class SharedSites:
    """The element of f on which each observation depends.

    - `where` (N,) of int: from 0 to n - 1, or n for an observation without an element: its predictor is zero, and its
      term is counted at the first element
    - `sites`: number n of elements
    """

    where: np.ndarray
    sites: int
    _parts: dict[bytes, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    @cached_property
    def complete(self) -> bool:
        """Whether each observation depends on an element."""
        return bool((self.where < self.sites).all())

    @cached_property
    def counted_at(self) -> np.ndarray:
        """The element at which each term is counted: (N,)."""
        return np.where(self.where < self.sites, self.where, 0)

    @cached_property
    def observed(self) -> np.ndarray:
        """The elements that have observations, in increasing order."""
        return np.unique(self.counted_at)

    @cached_property
    def _sums(self) -> Any:
        number = len(self.where)
        places = (self.counted_at, np.arange(number))
        return sparse.csr_array((np.ones(number), places), shape=(self.sites, number))

    def take(self, f: np.ndarray, where: np.ndarray) -> np.ndarray:
        """Return the predictors of observations that depend on given elements: (..., n) -> (..., len(where))."""
        if self.complete:
            return f[..., where]
        return np.concatenate([f, np.zeros((*f.shape[:-1], 1))], axis=-1)[..., where]

    def predictors(self, f: np.ndarray) -> np.ndarray:
        """Return the predictor of each observation: (..., n) -> (..., N)."""
        return self.take(f, self.where)

    def collect(self, values: np.ndarray) -> np.ndarray:
        """Sum values of observations over those of each element: (..., N) -> (..., n)."""
        if values.ndim == 1:
            return self._sums @ values
        return (self._sums @ values.reshape(-1, values.shape[-1]).T).T.reshape(*values.shape[:-1], self.sites)

    def observations_of(self, sites: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the observations counted at some elements, and the place of each one's element among these; cached."""
        chosen = np.arange(self.sites)[sites]
        key = chosen.tobytes()
        if key not in self._parts:
            place = np.full(self.sites + 1, -1)
            place[chosen] = np.arange(len(chosen))
            found = np.flatnonzero(place[self.counted_at] >= 0)
            looked = np.where(self.where[found] < self.sites, place[self.where[found]], len(chosen))
            self._parts[key] = found, looked
        return self._parts[key]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the cache."""
        return {"where": self.where, "sites": self.sites, "_parts": {}}


@dataclass(frozen=True, eq=False)
class SharingLikelihood:
    """The likelihood of f, made of one that knows a predictor for each observation.

    `inner`: likelihood of N predictors, a `Divisible` one.
    """

    inner: Any
    shared: SharedSites

    @property
    def separate(self) -> bool:
        """Whether each term depends on only one latent value."""
        return bool(self.inner.separate)

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f): (..., n) -> (...)."""
        return self.inner.log_likelihood(self.shared.predictors(f))

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y|f) by element of f: (draws, n) -> (draws, n)."""
        return self.shared.collect(self.inner.log_density(self.shared.predictors(f)))

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """Return the first derivative in f: (n,) -> (n,)."""
        return self.shared.collect(self.inner.gradient(self.shared.predictors(f)))

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Return minus the second derivative in f: (n,) -> (n,)."""
        return self.derivatives(f)[1]

    def derivatives(self, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient and curvature at the same f: (n,) to two (n,) arrays."""
        gradient, curvature = self.inner.derivatives(self.shared.predictors(f))
        return self.shared.collect(gradient), self.shared.collect(curvature)

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Return the third derivative in f: (n,) -> (n,)."""
        return self.shared.collect(self.inner.third_derivative(self.shared.predictors(f)))

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Return the expected curvature, or the size of the curvature: (n,) -> (n,)."""
        return self.shared.collect(self.inner.fisher_information(self.shared.predictors(f)))

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments:
        """Return the moments of the elements' terms from quadrature; an element without observations needs none."""
        seen = self.shared.observed
        whole = mean.copy(), variance.copy(), np.zeros_like(mean)

        def log_density(f: np.ndarray) -> np.ndarray:
            everywhere = np.zeros((len(f), len(mean)))
            everywhere[:, seen] = f
            return self.log_density(everywhere)[:, seen]

        close = None if near is None else (near[0][seen], near[1][seen])
        for values, found in zip(whole, tilted_moments(log_density, mean[seen], variance[seen], close), strict=True):
            values[seen] = found
        return TiltedMoments(*whole)

    def subset(self, sites: Any) -> _Part:
        """Return the terms of some elements, given by a slice or by their indices."""
        return _Part(self, *self.shared.observations_of(sites))


class _Part(NamedTuple):
    """The terms of some elements of f.

    `where`: index of each one's element among these.
    """

    whole: SharingLikelihood
    observations: np.ndarray
    where: np.ndarray

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Return the log-likelihood of these elements: (draws, s) -> (draws,)."""
        if not len(self.observations):
            return np.zeros(len(f))
        predictors = self.whole.shared.take(f, self.where)
        return self.whole.inner.subset(self.observations).log_likelihood(predictors)
