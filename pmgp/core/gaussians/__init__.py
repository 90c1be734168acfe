"""Gaussians over the latent values: the prior N(m, K) and approximations of the posterior made of Gaussian sites.

May import: core.numerics, core.likelihoods.
"""

from pmgp.core.gaussians.base import Coordinates, Gaussian
from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.observed import ObservedPrior, observed
from pmgp.core.gaussians.sites import Conditioning, SiteApproximation

__all__ = ["Conditioning", "Coordinates", "DensePrior", "Gaussian", "ObservedPrior", "SiteApproximation", "observed"]
