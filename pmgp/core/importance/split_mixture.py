"""The proposal of importance sampling: a t distribution with two widths along each axis about each maximum."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pmgp.core.importance.maxima import Maximum
from pmgp.core.importance.split_student import SplitStudent


@dataclass(frozen=True, eq=False)
class SplitMixture:
    """A mixture of split t distributions, with the shares of the posterior that they describe.

    `components`: with the same degrees of freedom; `values` (k,): logs of the posterior density at their centers, up to
    a constant.
    """

    components: tuple[SplitStudent, ...]
    values: np.ndarray

    @classmethod
    def about(cls, maxima: list[Maximum]) -> SplitMixture:
        """Return the mixture about some maxima."""
        return cls(tuple(one.student for one in maxima), np.array([one.value for one in maxima]))

    @property
    def maxima(self) -> list[Maximum]:
        """The centers as maxima, each with the density there and the component about it."""
        return [Maximum(float(value), one) for value, one in zip(self.values, self.components, strict=True)]

    @property
    def dimension(self) -> int:
        """Length of theta."""
        return self.components[0].dimension

    @property
    def degrees_of_freedom(self) -> float:
        """The degrees of freedom of all components."""
        return self.components[0].degrees_of_freedom

    @cached_property
    def log_shares(self) -> np.ndarray:
        """Logs of the probabilities of the components, by Laplace's method: (k,)."""
        masses = self.values + np.array([one.log_volume for one in self.components])
        return masses - np.logaddexp.reduce(masses)

    def fitted(self, log_density: Callable[[np.ndarray], float]) -> SplitMixture:
        """Return this mixture with widths from the log-density that gave `values`; see `SplitStudent.fitted`."""
        return replace(self, components=tuple(one.student.fitted(log_density, one.value) for one in self.maxima))

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Draw independently: (size, dimension)."""
        chosen = rng.choice(len(self.components), size=size, p=np.exp(self.log_shares))
        draws = np.empty((size, self.dimension))
        for k, one in enumerate(self.components):
            draws[chosen == k] = one.sample(rng, int(np.sum(chosen == k)))
        return draws

    def log_joint(self, theta: np.ndarray) -> np.ndarray:
        """Return the log of each component's share times its density: (size, dimension) -> (k, size)."""
        return self.log_shares[:, None] + np.array([one.log_density(theta) for one in self.components])

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """Return the log-density with its normalizing constant: (size, dimension) -> (size,)."""
        return np.logaddexp.reduce(self.log_joint(theta), axis=0)
