"""K(theta), or a whole log-density, on a device of JAX; loaded where it is asked for, since it needs JAX.

May import: core, interface.model, interface.tiles.
"""
