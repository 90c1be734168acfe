"""The code that knows PyMC: models taken apart, distributions, step methods, predictions.

May import: core, interface.
"""
