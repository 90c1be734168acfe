"""Quantities that chains learn while they tune: step sizes, moments, starts predicted from theta.

May import: core.numerics.
"""
