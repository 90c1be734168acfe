"""What an iteration makes of q in one call: an estimate, and at the theta that it has reached a move of f beside it.

Kernels for it are a row of others that are there one by one, so that nothing differs from calling these: draws of q
less its mean, and particles with their weights. Where f moves, the first draw gives the ellipse on which it does, the
first particle is f, and one of them is picked by the weights.
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
    kernel,
)

__all__ = ["estimating_signature", "picked", "renewing_signature"]

# Sites b and w, and the mean; L, K and the factor of B; the log of the integral of the prior times the sites.
OF_Q = *[VECTOR] * 3, *[ROWS] * 3, NUMBER
# Standard normals, two arrays; particles, the logs of their weights, and the weights.
NORMALS, WEIGHTED = [WRITTEN_ROWS] * 2, (WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_VECTOR)


def estimating_signature(terms: Any) -> tuple[Any, ...]:
    """Of a kernel that makes an estimate, by the type of the likelihood's data.

    What it takes besides is what :func:`renewing_signature` says, but for what has to do with f. Returned are the log
    of the weights' mean, and whether products with K were needed.
    """
    return types.Tuple((NUMBER, FLAG)), terms, *OF_Q, FLAG, *NORMALS, *WEIGHTED


def renewing_signature(terms: Any) -> tuple[Any, ...]:
    """Of a kernel, by the type of the likelihood's data.

    What it takes besides, in this order: sites b and w, and the mean, (n,) arrays; L, K and the factor of B, (n, n)
    arrays; the log of the integral of the prior times the sites; f, and the next three as of `slices.slicing`; whether
    mirror images of all draws come after them; standard normals that are lost, two (size, n) arrays; what is written,
    the new f (n,), particles (draws, n), the logs of their weights, and the weights.

    Returned are the log of the weights' mean, whether products with K were needed, and which particle was picked.
    """
    given = VECTOR, NUMBER, COUNT, COUNT, FLAG
    return types.Tuple((NUMBER, FLAG, COUNT)), terms, *OF_Q, *given, *NORMALS, WRITTEN_VECTOR, *WEIGHTED


@kernel(COUNT, VECTOR, NUMBER)
def picked(
    weights: np.ndarray,
    number: float,
) -> int:
    """An index by inversion of weights that sum to one, but for rounding.

    Parameters
    ----------
    weights : (draws,) array
    number : float
        Uniform.
    """
    passed, chosen = weights[0], 0
    while chosen < len(weights) - 1 and passed <= number:
        chosen += 1
        passed += weights[chosen]
    return chosen
