"""Models whose K(theta) JAX computes and keeps on one of its devices; loaded where it is asked for, since it needs JAX.

May import: core, interface.model, interface.tiles.
"""
