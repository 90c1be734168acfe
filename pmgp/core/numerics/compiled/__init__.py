"""Kernels compiled by numba, which call SciPy's own BLAS, LAPACK and special functions.

`loading` decides whether they are used, and it alone is imported from outside, with `outcomes`, which is numbers, and
`declaration`, with which `core.orthants` declares loops that have no NumPy version. Numba is loaded with the first
kernel.

May import: nothing else of the package.
"""
