"""Gaussian approximations of p(f|y, theta), which screen proposals and give importance samples."""

from pmgp.core.approximations import ExpectationPropagation, Laplace

__all__ = ["ExpectationPropagation", "Laplace"]
