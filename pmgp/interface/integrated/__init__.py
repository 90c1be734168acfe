"""Models with f integrated out by an approximation: as PyMC models of theta, and the correction of their draws.

May import: core, interface.graphs, interface.importance, interface.maximum, interface.model,
interface.steps.
"""
