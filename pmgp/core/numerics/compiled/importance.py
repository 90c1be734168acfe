"""Means of importance weights that are known by their logarithms (`core.estimators.importance`)."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import NUMBER, VECTOR, WRITTEN_VECTOR, kernel

__all__ = ["normalized"]


@kernel(NUMBER, VECTOR, WRITTEN_VECTOR)
def normalized(log_weights: np.ndarray, weights: np.ndarray) -> float:
    """Write weights that sum to one, zeros where all vanish; the log of the mean of exp(log_weights).

    Parameters
    ----------
    log_weights, weights : (draws,) array
    """
    largest = -math.inf
    for k in range(len(weights)):
        if math.isnan(log_weights[k]):
            return math.nan
        largest = max(largest, log_weights[k])
    total = 0.0
    for k in range(len(weights)):
        weights[k] = math.exp(log_weights[k] - largest) if largest > -math.inf else 0.0
        total += weights[k]
    if not total > 0.0:
        return largest
    for k in range(len(weights)):
        weights[k] /= total
    return largest + math.log(total / len(weights))
