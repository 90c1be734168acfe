"""Linear algebra with its operations counted, quadrature, BFGS's update, and the threads of BLAS.

May import: nothing else of the package.
"""
