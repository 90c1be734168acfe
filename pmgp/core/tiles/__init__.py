"""Products with a matrix that a JAX function computes tile by tile; nothing else in the package imports its JAX.

May import: nothing else of the package.
"""
