"""K(theta), a whole log-density, or whole chains on a device of JAX; loaded where it is asked for, since it needs JAX.

May import: core, interface.model, interface.tiles.
"""
