"""Several latent vectors given observations of each with Gaussian noise: each is conditioned by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pmgp.core.gaussians.blocks import BlockPrior
from pmgp.core.gaussians.observed import ObservedPrior, observed

__all__ = ["BlockObservedPrior", "blocks_observed"]


class BlockObservedPrior:
    """N(m, (K^-1 + W)^-1) for a diagonal W, as far as its mean does not depend on the observations.

    Parameters
    ----------
    parts : sequence of ObservedPrior
        Of f_1, ..., f_C.
    """

    def __init__(self, parts: Sequence[ObservedPrior]) -> None:
        self.parts = tuple(parts)
        self.prior = BlockPrior([part.prior for part in parts])

    @property
    def mean(self) -> np.ndarray:
        """m: (C n,)."""
        return self.prior.mean

    @property
    def precision(self) -> np.ndarray:
        """W: (C n,)."""
        return np.concatenate([part.precision for part in self.parts])

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """D^-1 (f - m): (C n,) -> (C n,)."""
        return self._each(ObservedPrior.whiten, f)

    def whitened(self, deviation: np.ndarray) -> np.ndarray:
        """D^-1 e: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.whitened, deviation)

    def deviation(self, x: np.ndarray) -> np.ndarray:
        """D x: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.deviation, x)

    def unwhiten(self, x: np.ndarray) -> np.ndarray:
        """m + D x: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.unwhiten, x)

    def pull(self, gradient: np.ndarray) -> np.ndarray:
        """D' g, the gradient in x of what has the gradient g in f = m + D x: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.pull, gradient)

    def mean_given(self, observations: np.ndarray) -> np.ndarray:
        """m + D D' W (g - m), the mean of f given observations g: (C n,) -> (C n,)."""
        return self._each(ObservedPrior.mean_given, observations)

    def log_density_of(self, observations: np.ndarray) -> float:
        """Log N(g|m, K + W^-1) up to a constant."""
        blocks = np.split(observations, len(self.parts))
        return sum(part.log_density_of(block) for part, block in zip(self.parts, blocks, strict=True))

    def _each(self, function: Callable[[ObservedPrior, np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        blocks = np.split(x, len(self.parts))
        return np.concatenate([function(part, block) for part, block in zip(self.parts, blocks, strict=True)])


def blocks_observed(prior: BlockPrior, precision: np.ndarray) -> BlockObservedPrior | None:
    """Observe every latent vector: two factorizations and one inversion for each.

    Parameters
    ----------
    prior : BlockPrior
    precision : (C n,) array
        W, as of :func:`~pmgp.core.gaussians.observed.observed`.

    Returns
    -------
    BlockObservedPrior or None
        None where a covariance is indefinite and stays so with a jitter.
    """
    found = [observed(part, w) for part, w in zip(prior.parts, np.split(precision, len(prior.parts)), strict=True)]
    parts = [part for part in found if part is not None]
    return BlockObservedPrior(parts) if len(parts) == len(found) else None
