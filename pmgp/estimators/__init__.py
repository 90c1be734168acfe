"""Unbiased estimates of the marginal likelihood p(y|theta)."""

from pmgp.estimators.annealed import AnnealedImportanceSampling, annealing_schedule
from pmgp.estimators.approximate import ApproximateEvidence
from pmgp.estimators.base import Estimator
from pmgp.estimators.importance import Estimate, ImportanceSampling

__all__ = [
    "AnnealedImportanceSampling",
    "ApproximateEvidence",
    "Estimate",
    "Estimator",
    "ImportanceSampling",
    "annealing_schedule",
]
