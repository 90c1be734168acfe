"""Priors of one latent vector or of several, and what each is conditioned with."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.gaussians import observed as dense
from pmgp.core.gaussians.block_observed import BlockObservedPrior, blocks_observed
from pmgp.core.gaussians.block_sites import BlockApproximation, BlockConditioning
from pmgp.core.gaussians.blocks import BlockPrior
from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.observed import ObservedPrior
from pmgp.core.gaussians.sites import Conditioning, SiteApproximation

__all__ = ["Posterior", "Prior", "conditioning", "observed"]

Prior = DensePrior | BlockPrior
"""Of one latent vector, or of several."""
Posterior = SiteApproximation | BlockApproximation
"""q, of one latent vector or of several."""


def conditioning(prior: Prior) -> Any:
    """A prior as what searches for sites conditions it.

    Parameters
    ----------
    prior : DensePrior or BlockPrior

    Returns
    -------
    Conditioning or BlockConditioning
        With likelihoods of the same kind, `Likelihood` or `BlockLikelihood`.
    """
    return BlockConditioning(prior) if isinstance(prior, BlockPrior) else Conditioning(prior)


def observed(prior: Prior, precision: np.ndarray) -> ObservedPrior | BlockObservedPrior | None:
    """Observe f with Gaussian noise: two factorizations and one inversion for each latent vector.

    Parameters
    ----------
    prior : DensePrior or BlockPrior
    precision : array as long as f
        As of :func:`~pmgp.core.gaussians.observed.observed`.

    Returns
    -------
    ObservedPrior, BlockObservedPrior or None
        None where a covariance is indefinite and stays so with a jitter.
    """
    if isinstance(prior, BlockPrior):
        return blocks_observed(prior, precision)
    return dense.observed(prior, precision)
