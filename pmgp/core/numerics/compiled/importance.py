"""Means of importance weights that are known by their logarithms (`core.estimators.importance`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    FLAG,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)

__all__ = ["normalized", "weighing", "weighing_signature"]


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


def weighing_signature(terms: Any) -> tuple[Any, ...]:
    """Of a kernel, by the type of the likelihood's data."""
    written = WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_VECTOR
    return NUMBER, terms, *[VECTOR] * 3, ROWS, FLAG, NUMBER, *written


def weighing(log_ratio: Callable[..., float]) -> Callable[..., float]:
    """What weighs draws, for terms by a kernel: of data, sites, f and the least value of interest."""

    @inlined
    def weigh(
        data: np.ndarray,
        q: tuple[np.ndarray, np.ndarray, np.ndarray, float],
        deviations: np.ndarray,
        paired: bool,
        particles: np.ndarray,
        log_weights: np.ndarray,
        weights: np.ndarray,
    ) -> float:
        """Write particles, the logs of their importance weights, and weights that sum to one; the log of their mean.

        Parameters
        ----------
        data : array
        q : three (n,) arrays and a float
            Sites b and w, the mean, and the log of the integral of the prior times the sites.
        deviations : (size, n) array
            Of draws from q's mean.
        paired : bool
            Whether the mirror images of all draws come after them.
        particles : (draws, n) array
        log_weights, weights : (draws,) array
        """
        linear, precision, mean, log_normalizer = q
        size = len(deviations)
        for k in range(size):
            away, particle = deviations[k], particles[k]
            for i in range(len(particle)):
                particle[i] = mean[i] + away[i]
            if paired:
                image = particles[size + k]
                for i in range(len(image)):
                    image[i] = mean[i] - away[i]
        for k in range(len(log_weights)):
            value = log_normalizer + log_ratio(data, linear, precision, particles[k], -math.inf)
            log_weights[k] = -math.inf if math.isnan(value) else value
        return normalized(log_weights, weights)

    return weigh
