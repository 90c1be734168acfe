"""Gaussian approximations q(f) of p(f|y, theta).

May import: core.numerics, core.likelihoods, core.gaussians.
"""

from pmgp.core.approximations.base import Approximation, Differentiable
from pmgp.core.approximations.expectation_propagation import ExpectationPropagation
from pmgp.core.approximations.laplace import Laplace

__all__ = ["NAMES", "Approximation", "Differentiable", "ExpectationPropagation", "Laplace"]

# Approximations by name.
NAMES: dict[str, type[Approximation]] = {"ep": ExpectationPropagation, "laplace": Laplace}
