"""Outcomes that kernels of whole iterations report; numbers only, so that nothing is loaded."""

MATCHED, NOT_CONVERGED, INDEFINITE = range(3)
