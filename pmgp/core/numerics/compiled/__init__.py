"""Kernels compiled by numba, which call SciPy's own BLAS, LAPACK and special functions.

`loading` decides whether they are used. It alone is imported from outside, but for `declaration`, with which
`core.orthants` declares loops that have no NumPy version. Numba is loaded with the first kernel.

May import: nothing else of the package.
"""
