"""What an iteration makes of q at the theta that it has reached, in one call: a move of f, and draws beside it.

Kernels for it are a row of others that are there one by one, so that nothing differs from calling these: draws of q
less its mean, the first of which gives the ellipse on which f moves; particles of which f is the first, with their
weights; and one of these, picked by the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    FLAG,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
)

__all__ = ["picked", "renewing_signature"]


def renewing_signature(terms: Any) -> tuple[Any, ...]:
    """Of a kernel, by the type of the likelihood's data.

    What it takes besides, in this order: sites b and w, and the mean, (n,) arrays; L, K and the factor of B, (n, n)
    arrays; the log of the integral of the prior times the sites; f, and the next three as of `slices.slicing`; whether
    mirror images of all draws come after them; standard normals that are lost, two (size, n) arrays; what is written,
    the new f (n,), particles (draws, n), the logs of their weights, and the weights.

    Returned are the log of the weights' mean, whether products with K were needed, and which particle was picked.
    """
    of_q = *[VECTOR] * 3, *[ROWS] * 3, NUMBER
    written = *[WRITTEN_ROWS] * 2, WRITTEN_VECTOR, WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_VECTOR
    return types.Tuple((NUMBER, FLAG, COUNT)), terms, *of_q, VECTOR, NUMBER, COUNT, COUNT, FLAG, *written


@inlined
def picked(
    weights: np.ndarray,
    number: float,
) -> int:
    """An index by inversion of weights that sum to one."""
    passed, chosen = weights[0], 0
    while chosen < len(weights) - 1 and passed <= number:
        chosen += 1
        passed += weights[chosen]
    return chosen
