"""PyTensor's graphs as functions: compiled, interpreted, by NumPy, unrolled.

May import: core.numerics.
"""
