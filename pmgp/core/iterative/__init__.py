"""Gaussians whose covariance is known through products only and never factorized, with solvers and preconditioners.

May import: core.numerics, core.inducing, core.likelihoods, core.gaussians.
"""
