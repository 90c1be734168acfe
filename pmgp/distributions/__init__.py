"""The likelihoods as PyMC distributions."""

from pmgp.distributions.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.distributions.log_gaussian_cox import LogGaussianCox
from pmgp.distributions.ordinal import OrdinalProbit
from pmgp.distributions.stochastic_volatility import StochasticVolatility

__all__ = ["BernoulliLogit", "BernoulliProbit", "LogGaussianCox", "OrdinalProbit", "StochasticVolatility"]
