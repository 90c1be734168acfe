"""Unbiased estimates of p(y|theta), for the argument `estimator` of the step methods."""

from pmgp.core.estimators import (
    AnnealedImportanceSampling,
    ImportanceSampling,
    OrthantSampling,
    RaoBlackwellSampling,
    SequentialSampling,
)
from pmgp.core.markov import PathSampling

__all__ = [
    "AnnealedImportanceSampling",
    "ImportanceSampling",
    "OrthantSampling",
    "PathSampling",
    "RaoBlackwellSampling",
    "SequentialSampling",
]
