"""What draws of a posterior are worth: evidence, predictive densities with one observation left out, and corrections.

May import: core, interface.graphs, interface.maximum, interface.model, interface.steps.
"""
