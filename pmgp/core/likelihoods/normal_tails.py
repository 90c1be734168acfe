"""Derivatives of the log of a normal probability, far into both tails.

The hazard h(z) = phi(z) / Phi(z) approaches -z in the left tail. There h + z cancels, and so do the combinations of
both that are the higher derivatives of log Phi. Laplace's continued fraction gives them without a difference: for
x = -z > 0, h = x + k_1 with k_n = n / (x + k_(n+1)).
"""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx

# Left of this point the fraction has converged to rounding error after DEPTH terms; right of it little cancels.
TAIL = -5.0
DEPTH = 40


def hazard(z: np.ndarray) -> np.ndarray:
    """Return phi(z) / Phi(z), the first derivative of log Phi(z), from the scaled error function."""
    return np.sqrt(2.0 / np.pi) / erfcx(-z / np.sqrt(2.0))


def excess(z: np.ndarray) -> np.ndarray:
    """Return hazard(z) + z; the second derivative of log Phi(z) is minus hazard times excess."""
    total = np.asarray(hazard(z) + z)
    tail = z < TAIL
    if np.any(tail):
        total[tail] = _fractions(-z[tail])[0]
    return total


def third_derivative(z: np.ndarray) -> np.ndarray:
    """Return the third derivative of log Phi(z): h ((h + z) (2 h + z) - 1)."""
    h = hazard(z)
    result = np.asarray(h * ((h + z) * (2.0 * h + z) - 1.0))
    tail = z < TAIL
    if np.any(tail):
        # With 1 - x k_1 = k_1 k_2 and k_2 - 2 k_1 = k_1 k_2 (k_2 - k_3), nothing cancels.
        first, second, third = _fractions(-z[tail])
        result[tail] = h[tail] * first**2 * second * (third - second)
    return result


def _fractions(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return k_1, k_2 and k_3 of the continued fraction."""
    values = [np.zeros_like(x)]
    for n in range(DEPTH, 0, -1):
        values = [n / (x + values[0]), *values[:2]]
    return values[0], values[1], values[2]
