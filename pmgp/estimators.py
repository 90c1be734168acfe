"""Unbiased estimates of p(y|theta), for the argument `estimator` of the step methods."""

from pmgp.core.estimators import AnnealedImportanceSampling, ImportanceSampling, OrthantSampling, SequentialSampling

__all__ = ["AnnealedImportanceSampling", "ImportanceSampling", "OrthantSampling", "SequentialSampling"]
