"""Gaussians over the latent values: the prior N(m, K) and approximations of the posterior made of Gaussian sites.

May import: core.numerics, core.likelihoods.
"""

from pmgp.core.gaussians.base import (
    SMALLEST_PRECISION,
    ConditionedPrior,
    Coordinates,
    Gaussian,
    Observed,
    Posterior,
    Prior,
    Reached,
    UnsupportedError,
)
from pmgp.core.gaussians.block_sites import BlockApproximation, BlockConditioning
from pmgp.core.gaussians.blocks import BlockPrior, IndependentPrior
from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.designs import DesignPrior
from pmgp.core.gaussians.observed import BlockObservedPrior, ObservedPrior
from pmgp.core.gaussians.shrinking import Shrinkage, ShrinkingPrior, ShrunkConditioning, ShrunkPosterior
from pmgp.core.gaussians.site_groups import Group, SiteGroups
from pmgp.core.gaussians.sites import Conditioning, SiteApproximation

__all__ = [
    "SMALLEST_PRECISION",
    "BlockApproximation",
    "BlockConditioning",
    "BlockObservedPrior",
    "BlockPrior",
    "ConditionedPrior",
    "Conditioning",
    "Coordinates",
    "DensePrior",
    "DesignPrior",
    "Gaussian",
    "Group",
    "IndependentPrior",
    "Observed",
    "ObservedPrior",
    "Posterior",
    "Prior",
    "Reached",
    "Shrinkage",
    "ShrinkingPrior",
    "ShrunkConditioning",
    "ShrunkPosterior",
    "SiteApproximation",
    "SiteGroups",
    "UnsupportedError",
]
