"""Gaussian approximations q(f) of p(f|y, theta)."""

from pmgp.approximations.base import Approximation
from pmgp.approximations.expectation_propagation import ExpectationPropagation
from pmgp.approximations.laplace import Laplace

__all__ = ["Approximation", "ExpectationPropagation", "Laplace"]
