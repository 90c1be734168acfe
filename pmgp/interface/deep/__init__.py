"""Random features: deep processes fitted with JAX, and features inside a PyMC model, which do not need JAX.

May import: core.deep, core.numerics, core.tiles, core.transitions.
"""
