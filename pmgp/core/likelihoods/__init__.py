"""Likelihoods p(y|f) that factorize over f, with their derivatives in f; NumPy and SciPy only.

May import: core.numerics.
"""

from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.core.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.core.likelihoods.ordinal import OrdinalProbit
from pmgp.core.likelihoods.stochastic_volatility import StochasticVolatility

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "Likelihood",
    "LogGaussianCox",
    "OrdinalProbit",
    "StochasticVolatility",
]
