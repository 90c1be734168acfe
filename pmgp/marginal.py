"""A model with its latent values integrated out.

Estimates of p(y|theta) at given hyper-parameters, a PyMC model of the hyper-parameters alone that approximates it, and
draws of that model made exact.
"""

from pmgp.core.iterative.settings import Iterative
from pmgp.interface.backends import JaxTiles, NumpyTiles
from pmgp.interface.evidence import log_likelihood
from pmgp.interface.integrated.approximate import approximate
from pmgp.interface.integrated.correct import correct
from pmgp.interface.iterative_evidence import iterative_log_likelihood

__all__ = [
    "Iterative",
    "JaxTiles",
    "NumpyTiles",
    "approximate",
    "correct",
    "iterative_log_likelihood",
    "log_likelihood",
]
