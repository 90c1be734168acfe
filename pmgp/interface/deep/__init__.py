"""Random features for users: deep processes fitted with JAX, and features inside a PyMC model, which need no JAX.

May import: core.deep.
"""
