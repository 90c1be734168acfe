"""Fast ways to K(theta), from its graph.

May import: core.numerics, core.iterative, interface.graphs.
"""
