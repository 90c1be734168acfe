"""What kernels of whole iterations report; numbers only, so that nothing is loaded."""

__all__ = ["INDEFINITE", "MATCHED", "NOT_CONVERGED"]

MATCHED, NOT_CONVERGED, INDEFINITE = range(3)
