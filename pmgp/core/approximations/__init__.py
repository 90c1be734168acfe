"""Gaussian approximations q(f) of p(f|y, theta).

May import: core.numerics, core.likelihoods, core.gaussians.
"""

from pmgp.core.approximations.base import Approximation
from pmgp.core.approximations.expectation_propagation import ExpectationPropagation
from pmgp.core.approximations.laplace import Laplace

__all__ = ["Approximation", "ExpectationPropagation", "Laplace"]
