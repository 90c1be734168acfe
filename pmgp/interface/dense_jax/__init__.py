"""K(theta), a whole log-density, or whole chains on a device of JAX; loaded only when asked for, since it needs JAX.

May import: core, interface.model, interface.tiles.
"""
