"""Step methods for `pymc.sample`, and the decorator for storing classes in the states of your own step methods."""

from pmgp.core.numerics.storable import storable
from pmgp.interface.langevin import StochasticGradientLangevin
from pmgp.interface.sparse import SparseGibbs, SparseHMC
from pmgp.interface.steps import (
    Ancillary,
    EllipticalSlice,
    Interweaving,
    JaxMatrices,
    JointUpdate,
    LatentHMC,
    LatentMetropolis,
    LatentRMHMC,
    LatentSMMALA,
    LatentStep,
    PseudoMarginal,
    Sufficient,
    Surrogate,
)

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
    "SparseGibbs",
    "SparseHMC",
    "StochasticGradientLangevin",
    "Sufficient",
    "Surrogate",
    "storable",
]
