"""What kernels of whole iterations report, and the memory that they want; numbers only, so that nothing is loaded."""

__all__ = ["INDEFINITE", "MATCHED", "NEWTON_ROWS", "NOT_CONVERGED", "SWEEP_ROWS"]

MATCHED, NOT_CONVERGED, INDEFINITE = range(3)
NEWTON_ROWS = 4
"""Vectors that Newton's method works with."""
SWEEP_ROWS = 4
"""Vectors that sweeps of expectation propagation work with, zeros at first."""
