"""Features from which the start of an approximation is predicted (`core.adaptation.mode_prediction`)."""

from __future__ import annotations

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import COUNT, NOTHING, NUMBER, VECTOR, WRITTEN_VECTOR, kernel

INDICES = types.Array(COUNT, 2, "C", readonly=True)


@kernel(NOTHING, VECTOR, VECTOR, VECTOR, NUMBER, INDICES, WRITTEN_VECTOR)
def features(
    theta: np.ndarray,
    location: np.ndarray,
    scale: np.ndarray,
    farthest: float,
    factors: np.ndarray,
    features: np.ndarray,
) -> None:
    """Write the monomials of the standardized theta.

    - theta, location, scale (dimension,)
    - farthest: largest absolute value allowed for an element of the standardized theta
    - factors (p, degree): indices of the elements that are multiplied; the last element is 1
    - features (p,)
    """
    z = np.ones(len(theta) + 1)
    for i in range(len(theta)):
        z[i] = min(max((theta[i] - location[i]) / scale[i], -farthest), farthest)
    for k in range(len(features)):
        product = z[factors[k, 0]]
        for place in factors[k, 1:]:
            product *= z[place]
        features[k] = product
