"""The numerical core: NumPy, SciPy and LAPACK, and never PyMC or PyTensor.

May import: core.gaussians, core.likelihoods.
"""
