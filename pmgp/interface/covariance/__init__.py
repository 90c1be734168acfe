"""Fast ways to K(theta), from its graph.

May import: core.numerics, interface.graphs.
"""
