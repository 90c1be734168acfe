"""Likelihoods p(y|f) that factorize over f, with their derivatives in f; NumPy and SciPy only.

May import: core.numerics.
"""

from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.likelihoods.log_gaussian_cox import LogGaussianCox
from pmgp.core.likelihoods.multinomial_logit import MultinomialLogit
from pmgp.core.likelihoods.ordinal import OrdinalProbit
from pmgp.core.likelihoods.stochastic_volatility import StochasticVolatility

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "BlockLikelihood",
    "Likelihood",
    "LogGaussianCox",
    "MultinomialLogit",
    "OrdinalProbit",
    "StochasticVolatility",
]
