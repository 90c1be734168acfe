"""Dense Gaussians whose matrices JAX holds and factorizes, on any of its devices; nothing else imports this folder.

May import: core.gaussians, core.likelihoods, core.numerics.
"""
