"""Moves that leave a given density invariant; they know nothing of Gaussian processes.

May import: core.numerics.
"""
