"""Linear algebra with its operations counted, quadrature, and the threads of BLAS.

May import: nothing else of the package.
"""
