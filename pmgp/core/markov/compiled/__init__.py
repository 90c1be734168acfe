"""Loops over blocks in time and over the patterns of sparse factors, compiled by numba.

They have no NumPy version; tests compare them with dense algebra. Numba is loaded with the first of them.

May import: core.numerics.
"""
