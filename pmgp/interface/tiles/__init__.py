"""Covariances whose tiles JAX computes; loaded where it is asked for, since it needs JAX.

May import: core.tiles, core.iterative, core.numerics, interface.covariance, interface.graphs.
"""
