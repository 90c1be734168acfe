"""Fast ways to compute K(theta) from its graph.

May import: core.numerics, core.iterative, interface.graphs.
"""
