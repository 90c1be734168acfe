"""Importance weights: the posterior, the evidence, and predictive densities with one observation left out.

May import: core, interface.executors, interface.graphs, interface.iterative_evidence, interface.maximum,
interface.model, interface.steps.
"""
