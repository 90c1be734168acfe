"""The likelihoods as PyMC distributions, and a record with the package's knowledge about each.

May import: core, interface.graphs.
"""

from pmgp.interface.distributions.bernoulli import BernoulliLogit, BernoulliProbit
from pmgp.interface.distributions.log_gaussian_cox import LogGaussianCox
from pmgp.interface.distributions.multinomial_logit import MultinomialLogit
from pmgp.interface.distributions.ordinal import OrdinalProbit
from pmgp.interface.distributions.robust_max import RobustMax
from pmgp.interface.distributions.stochastic_volatility import StochasticVolatility

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "LogGaussianCox",
    "MultinomialLogit",
    "OrdinalProbit",
    "RobustMax",
    "StochasticVolatility",
]
