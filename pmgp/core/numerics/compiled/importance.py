"""Means of importance weights, given their logarithms (`core.estimators.importance`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    FLAG,
    NOTHING,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    Kernel,
    kernel,
)


@kernel(NUMBER, VECTOR, WRITTEN_VECTOR)
def normalized(log_weights: np.ndarray, weights: np.ndarray) -> float:
    """Write weights that sum to one, or zeros if all vanish; return the log of the mean of exp(log_weights).

    Shapes: log_weights, weights (draws,).
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


def weighing(log_ratio: Kernel, terms: Any) -> Kernel:
    """Return a kernel that weighs draws, made from one that returns log ratios.

    `log_ratio`: from the module where the result is called "weighed"; `terms`: type of the likelihood's data.
    """
    written = WRITTEN_ROWS, WRITTEN_VECTOR, WRITTEN_VECTOR

    @kernel(NUMBER, terms, *[VECTOR] * 3, ROWS, FLAG, NUMBER, *written, owner=log_ratio)
    def weighed(
        data: np.ndarray,
        linear: np.ndarray,
        precision: np.ndarray,
        mean: np.ndarray,
        deviations: np.ndarray,
        paired: bool,
        log_normalizer: float,
        particles: np.ndarray,
        log_weights: np.ndarray,
        weights: np.ndarray,
    ) -> float:
        """Write particles, log importance weights, and weights that sum to one; return the log of the mean weight.

        linear, precision, mean (n,): sites b and w, and the mean; deviations (size, n): deviations of draws from q's
        mean; paired: whether mirror images of all draws follow them; log_normalizer: log of the integral of the
        prior times the sites; particles (draws, n); log_weights, weights (draws,).
        """
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

    return weighed


def log_ratios_of(log_ratio: Kernel, terms: Any) -> Kernel:
    """Return the log ratios of likelihood and sites at several f, using a kernel and its data as `weighing` does."""

    @kernel(NOTHING, terms, VECTOR, VECTOR, ROWS, WRITTEN_VECTOR, owner=log_ratio)
    def log_ratios(data: np.ndarray, linear: np.ndarray, precision: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
        """Write the log ratio of likelihood and sites for each row f.

        linear, precision (n,): b and w, or empty arrays where there are no sites; f (size, n); out (size,).
        """
        for k in range(f.shape[0]):
            out[k] = log_ratio(data, linear, precision, f[k], -math.inf)

    return log_ratios
