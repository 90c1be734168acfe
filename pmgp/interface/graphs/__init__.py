"""Functions made of PyTensor's graphs: compiled, interpreted, computed with NumPy, or unrolled.

May import: core.numerics.
"""
