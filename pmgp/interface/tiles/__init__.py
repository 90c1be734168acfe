"""Covariances whose tiles JAX computes; loaded only when asked for, since they need JAX.

May import: core.tiles, core.iterative, core.numerics, interface.covariance, interface.graphs.
"""
