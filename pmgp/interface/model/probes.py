"""Points at which a likelihood is evaluated to find its dependencies and whether it can be finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

# The number of points at which the dependencies of the likelihood are examined.
PROBES = 4


@dataclass(frozen=True)
class Probes:
    """Triples of theta, f and moves of f: at the initial theta and at random around it, the same in each iteration.

    The theta differ because a likelihood may depend on several latent values through a parameter whose initial value is
    zero. Theta with density zero are left out, except the initial one. The elements of theta in `discrete` take the
    values in the rows of `settings`, while the others have their initial values. The mean and variance are those of f
    at the initial theta.
    """

    theta: np.ndarray
    log_prior: Callable[[np.ndarray], float]
    mean: np.ndarray
    variance: np.ndarray
    number: int = 1
    discrete: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    settings: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))

    @property
    def sites(self) -> int:
        """The number of values in each latent vector."""
        return self.mean.size // self.number

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations of f at the initial theta, or ones where they are unknown: (n,)."""
        usable = np.isfinite(self.variance) & (self.variance > 0.0)
        return np.sqrt(np.where(usable, self.variance, 1.0))

    @property
    def far(self) -> np.ndarray:
        """Values of f on either side of its mean, where some observations may be possible alone: (k, n).

        With narrow noise distant ones are, at some deviations of f from the mean; where a link overflows, because the
        initial deviation of f is extreme, all are near the mean.
        """
        distant = np.outer([-8.0, -4.0, -2.0, 2.0, 4.0, 8.0], self.deviation)
        return self.mean + np.vstack([distant, np.outer([-1.0, 0.0, 1.0], np.ones(self.mean.size))])

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield theta, f and moves of f: arrays of shapes (dimension,), (n,) and (n,)."""
        rng = np.random.default_rng(0)
        for probe, theta in enumerate(self._thetas(rng)):
            # Near the prior mean first, where most likelihoods are finite.
            scale = (1.0 if probe else 0.1) * self.deviation
            f = self.mean + scale * rng.standard_normal(self.mean.shape)
            change = scale * rng.uniform(0.5, 1.5, self.mean.shape)
            if probe == 0 or np.isfinite(self.log_prior(theta)):
                yield theta, f, change

    def _thetas(self, rng: np.random.Generator) -> Iterator[np.ndarray]:
        """Yield the initial theta, theta at random around it, and theta with other values of the discrete elements."""
        for probe in range(PROBES):
            shift = rng.standard_normal(self.theta.size)
            shift[self.discrete] = 0.0
            yield self.theta + (probe > 0) * shift
        for row in self.settings:
            theta = self.theta.copy()
            theta[self.discrete] = row
            yield theta
