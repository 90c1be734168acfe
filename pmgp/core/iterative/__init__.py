"""Gaussians whose covariance is only multiplied with vectors and never factorized, with solvers and preconditioners.

May import: core.numerics, core.likelihoods, core.gaussians, core.approximations.
"""
