"""PyMC models of theta with f integrated out approximately, and the correction of their draws.

May import: core, interface.graphs, interface.importance, interface.maximum, interface.model,
interface.steps.
"""
