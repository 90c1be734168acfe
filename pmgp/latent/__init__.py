"""Gaussians over the latent values: the prior N(m, K) and approximations of the posterior made of Gaussian sites."""

from pmgp.latent.dense import DensePrior
from pmgp.latent.sites import SiteApproximation

__all__ = ["DensePrior", "SiteApproximation"]
