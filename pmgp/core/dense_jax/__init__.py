"""Dense Gaussians whose matrices JAX holds and factorizes, on any of its devices; nothing else imports this folder.

`gaussians` are for the algorithms of NumPy's chain; `chains` are the whole chain as pure functions, for many at once.

May import: core.approximations, core.gaussians, core.likelihoods, core.numerics.
"""
