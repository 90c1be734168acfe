"""Updates of f given theta: transitions that leave p(f|theta, y) invariant.

May import: core.numerics, core.likelihoods, core.gaussians, core.transitions, core.adaptation, core.approximations.
"""

from pmgp.core.latent_updates.base import LatentUpdate
from pmgp.core.latent_updates.elliptical_slice import EllipticalSliceUpdate
from pmgp.core.latent_updates.hmc import HamiltonianUpdate
from pmgp.core.latent_updates.metropolis import MetropolisUpdate
from pmgp.core.latent_updates.riemannian import RiemannianUpdate
from pmgp.core.latent_updates.smmala import LangevinUpdate

__all__ = [
    "EllipticalSliceUpdate",
    "HamiltonianUpdate",
    "LangevinUpdate",
    "LatentUpdate",
    "MetropolisUpdate",
    "RiemannianUpdate",
]
