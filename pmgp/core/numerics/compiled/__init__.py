"""Kernels compiled by numba, which call SciPy's own BLAS, LAPACK and special functions.

Other folders import only `loading`, which finds kernels by name, `outcomes`, which holds numbers, and `declaration`,
with which they declare loops of their own. Numba is loaded with the first kernel.

May import: nothing else of the package.
"""
