"""Unbiased estimates of the marginal likelihood p(y|theta)."""

from pmgp.estimators.importance import Estimate, ImportanceSampling

__all__ = ["Estimate", "ImportanceSampling"]
