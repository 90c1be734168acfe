"""Step methods for `pymc.sample`: for the hyper-parameters, and for the latent values given them."""

from pmgp.interface.sparse import SparseGibbs, SparseHMC, SparseTempering
from pmgp.interface.steps import (
    Ancillary,
    EllipticalSlice,
    Interweaving,
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
    "JointUpdate",
    "LatentHMC",
    "LatentMetropolis",
    "LatentRMHMC",
    "LatentSMMALA",
    "LatentStep",
    "PseudoMarginal",
    "SparseGibbs",
    "SparseHMC",
    "SparseTempering",
    "Sufficient",
    "Surrogate",
]
