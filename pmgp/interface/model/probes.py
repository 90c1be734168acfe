"""Points at which a likelihood is evaluated to find its dependencies and whether it can be finite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np

# How often the likelihood is looked at to see what it depends on.
PROBES = 4


@dataclass(frozen=True)
class Probes:
    """Theta, f, and how far f may be moved: at the initial theta and at random around it, always the same ones.

    A likelihood may depend on several latent values through a parameter whose initial value is zero. Theta of density
    zero are left out, but for the initial one.

    Parameters
    ----------
    theta : (dimension,) array
        The initial one.
    log_prior : callable
        Theta to log p(theta).
    mean, variance : (n,) array
        Mean and variance of f at the initial theta.
    number : int
        Number of latent vectors in f, one after another.
    discrete : array of int
        Elements of theta that stay as they are.
    """

    theta: np.ndarray
    log_prior: Callable[[np.ndarray], float]
    mean: np.ndarray
    variance: np.ndarray
    number: int = 1
    discrete: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))

    @property
    def sites(self) -> int:
        """Number of values that each latent vector has."""
        return self.mean.size // self.number

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Tuples of arrays of shapes (dimension,), (n,) and (n,)."""
        rng = np.random.default_rng(0)
        usable = np.isfinite(self.variance) & (self.variance > 0.0)
        deviation = np.sqrt(np.where(usable, self.variance, 1.0))
        for probe in range(PROBES):
            shift = rng.standard_normal(self.theta.size)
            shift[self.discrete] = 0.0
            theta = self.theta + (probe > 0) * shift
            # Near the prior mean first, where most likelihoods are finite.
            scale = (1.0 if probe else 0.1) * deviation
            f = self.mean + scale * rng.standard_normal(self.mean.shape)
            change = scale * rng.uniform(0.5, 1.5, self.mean.shape)
            if probe == 0 or np.isfinite(self.log_prior(theta)):
                yield theta, f, change
