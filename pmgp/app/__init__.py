"""The inner parts of the command line, from settings to a folder of results. Nothing else in the package imports them.

May import: interface, models, datasets, scores, plots, diagnostics, core.likelihoods, core.numerics.threads.
"""
