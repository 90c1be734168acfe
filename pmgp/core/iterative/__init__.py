"""Gaussians whose covariance is known by its products, never factorized: solvers, preconditioners, and what they serve.

May import: core.numerics, core.inducing, core.likelihoods, core.gaussians.
"""
