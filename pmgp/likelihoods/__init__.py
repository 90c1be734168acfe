"""Likelihoods p(y|f) that factorize over f, with their derivatives in f; NumPy and SciPy only."""

from pmgp.likelihoods.base import Likelihood
from pmgp.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.likelihoods.ordinal import OrdinalProbit
from pmgp.likelihoods.stochastic_volatility import StochasticVolatility

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "Likelihood",
    "LogGaussianCox",
    "OrdinalProbit",
    "StochasticVolatility",
]
