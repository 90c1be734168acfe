"""The schemes and operators as PyMC step methods."""

from pmgp.step_methods.latent import EllipticalSlice, LatentHMC, LatentMetropolis, LatentSMMALA
from pmgp.step_methods.pseudo_marginal import PseudoMarginal
from pmgp.step_methods.theta import Ancillary, Interweaving, JointUpdate, Sufficient, Surrogate

__all__ = [
    "Ancillary",
    "EllipticalSlice",
    "Interweaving",
    "JointUpdate",
    "LatentHMC",
    "LatentMetropolis",
    "LatentSMMALA",
    "PseudoMarginal",
    "Sufficient",
    "Surrogate",
]
