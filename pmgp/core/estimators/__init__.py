"""Unbiased estimates of the marginal likelihood p(y|theta).

May import: core.numerics, core.likelihoods, core.gaussians, core.transitions, core.approximations, core.orthants.
"""

from pmgp.core.estimators.annealed import AnnealedImportanceSampling, annealing_schedule
from pmgp.core.estimators.approximate import ApproximateEvidence
from pmgp.core.estimators.base import Estimate, Estimator
from pmgp.core.estimators.choice import suitable
from pmgp.core.estimators.importance import ImportanceSampling
from pmgp.core.estimators.orthant import OrthantSampling
from pmgp.core.estimators.rao_blackwell import RaoBlackwellSampling
from pmgp.core.estimators.sequential import SequentialSampling

__all__ = [
    "NAMES",
    "AnnealedImportanceSampling",
    "ApproximateEvidence",
    "Estimate",
    "Estimator",
    "ImportanceSampling",
    "OrthantSampling",
    "RaoBlackwellSampling",
    "SequentialSampling",
    "annealing_schedule",
    "suitable",
]

# Estimators by name.
NAMES: dict[str, type[Estimator]] = {
    "annealed": AnnealedImportanceSampling,
    "importance": ImportanceSampling,
    "none": ApproximateEvidence,
    "orthant": OrthantSampling,
    "rao-blackwell": RaoBlackwellSampling,
    "sequential": SequentialSampling,
}
