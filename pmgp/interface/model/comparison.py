"""Comparison of two ways to compute a part of a model."""

from __future__ import annotations

import numpy as np

# Relative to the largest value. A wrong decomposition of a covariance is far off; but the root of a squared distance
# differs between two correct computations by the root of the rounding error.
SAME = 1e-7


def same_values(expected: np.ndarray, found: np.ndarray) -> bool:
    """Return whether all elements are equal up to a fraction of the largest one; NaN equals NaN."""
    tolerance = SAME * np.abs(expected, where=np.isfinite(expected), out=np.zeros(expected.shape)).max(initial=0.0)
    return bool(np.allclose(found, expected, rtol=0.0, atol=tolerance, equal_nan=True))
