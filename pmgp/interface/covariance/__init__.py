"""Fast ways to K(theta), from its graph.

May import: interface.graphs.
"""
