"""Deep Gaussian processes by random features, in JAX; nothing else in the package imports this folder's JAX.

May import: nothing else of the package.
"""
