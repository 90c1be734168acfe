"""Gaussians over the latent values: the prior N(m, K) and approximations of the posterior made of Gaussian sites.

May import: core.numerics, core.likelihoods.
"""

from pmgp.core.gaussians.dense import DensePrior
from pmgp.core.gaussians.sites import SiteApproximation

__all__ = ["DensePrior", "SiteApproximation"]
