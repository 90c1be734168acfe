"""Gaussians over the latent values: the prior N(m, K) and approximations of the posterior made of Gaussian sites.

May import: core.numerics, core.likelihoods.
"""

from pmgp.core.gaussians.base import Coordinates, Gaussian
from pmgp.core.gaussians.block_observed import BlockObservedPrior
from pmgp.core.gaussians.block_sites import BlockApproximation, BlockConditioning
from pmgp.core.gaussians.blocks import BlockPrior
from pmgp.core.gaussians.conditioning import Posterior, Prior, conditioning, observed
from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.observed import ObservedPrior
from pmgp.core.gaussians.sites import Conditioning, SiteApproximation

__all__ = [
    "BlockApproximation",
    "BlockConditioning",
    "BlockObservedPrior",
    "BlockPrior",
    "Conditioning",
    "Coordinates",
    "DensePrior",
    "Gaussian",
    "ObservedPrior",
    "Posterior",
    "Prior",
    "SiteApproximation",
    "conditioning",
    "observed",
]
