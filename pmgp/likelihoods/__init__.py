"""Likelihoods p(y|f) that factorize over f, with their derivatives in f; NumPy and SciPy only."""

from pmgp.likelihoods.base import Likelihood
from pmgp.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit

__all__ = ["BernoulliLogit", "BernoulliProbit", "Likelihood"]
