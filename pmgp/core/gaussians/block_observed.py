"""Several latent vectors given noisy observations of each: each vector is conditioned by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pmgp.core.gaussians.base import Observed, Prior
from pmgp.core.gaussians.observed import ObservedPrior


class BlockObservedPrior(Observed):
    """N(m, (K^-1 + W)^-1) for a diagonal W: f given observations, without their effect on the mean.

    Parameters
    ----------
    prior : Prior
        Prior of all vectors.
    parts : sequence of ObservedPrior
        Observed priors of f_1, ..., f_C.
    """

    def __init__(self, prior: Prior, parts: Sequence[ObservedPrior]) -> None:
        self.prior, self.parts = prior, tuple(parts)
        self.precision = np.concatenate([part.precision for part in parts])

    def whitened(self, deviation: np.ndarray) -> np.ndarray:
        """Return D^-1 e: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.whitened, deviation)

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """Return D x: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.deviation, x)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """Return D' g, the gradient in x of a function whose gradient in f = m + D x is g: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.pull, gradient)

    def log_density_of(self, observations: np.ndarray) -> float:
        """Return log N(g|m, K + W^-1) up to a constant."""
        blocks = np.split(observations, len(self.parts))
        return sum(part.log_density_of(block) for part, block in zip(self.parts, blocks, strict=True))

    def _each(self, function: Callable[[ObservedPrior, np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        blocks = np.split(x, len(self.parts))
        return np.concatenate([function(part, block) for part, block in zip(self.parts, blocks, strict=True)])
