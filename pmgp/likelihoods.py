"""Likelihoods as PyMC distributions, with closed forms that a graph does not have.

Any PyMC likelihood that factorizes over f works as it stands; these are faster, or are not in PyMC.
"""

from pmgp.interface.distributions import (
    BernoulliLogit,
    BernoulliProbit,
    LogGaussianCox,
    MultinomialLogit,
    OrdinalProbit,
    RobustMax,
    StochasticVolatility,
)

__all__ = [
    "BernoulliLogit",
    "BernoulliProbit",
    "LogGaussianCox",
    "MultinomialLogit",
    "OrdinalProbit",
    "RobustMax",
    "StochasticVolatility",
]
