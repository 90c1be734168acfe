"""Gaussian approximations q(f) of p(f|y, theta)."""

from pmgp.approximations.laplace import Laplace

__all__ = ["Laplace"]
