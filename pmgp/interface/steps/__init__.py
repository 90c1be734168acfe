"""The schemes and operators as PyMC step methods.

May import: core, interface.dense_jax, interface.graphs, interface.model.
"""

from pmgp.interface.steps.latent_rmhmc import LatentRMHMC
from pmgp.interface.steps.latent_updates import EllipticalSlice, LatentHMC, LatentMetropolis, LatentSMMALA, LatentStep
from pmgp.interface.steps.matrices import JaxMatrices
from pmgp.interface.steps.pseudo_marginal import PseudoMarginal
from pmgp.interface.steps.theta_updates import Ancillary, Interweaving, JointUpdate, Sufficient, Surrogate

__all__ = [
    "Ancillary",
    "EllipticalSlice",
    "Interweaving",
    "JaxMatrices",
    "JointUpdate",
    "LatentHMC",
    "LatentMetropolis",
    "LatentRMHMC",
    "LatentSMMALA",
    "LatentStep",
    "PseudoMarginal",
    "Sufficient",
    "Surrogate",
]
