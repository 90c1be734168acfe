"""Checks of labels and predicted probabilities for scores of several categories."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pmgp.core.numerics.arrays import refuse_masked

ROUNDING = 1e-6
"""Largest deviation from 1 of the sum of probabilities."""


def categories_and_probabilities(
    y: ArrayLike, probabilities: ArrayLike
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return both as arrays of shapes (n,) and (n, r), after checking them."""
    refuse_masked("y", y)
    refuse_masked("probabilities", probabilities)
    y, probabilities = np.asarray(y), np.asarray(probabilities, dtype=np.float64)
    if y.ndim != 1 or not y.size or probabilities.ndim != 2 or len(y) != len(probabilities):
        raise ValueError(
            "y and probabilities must have shapes (n,) and (n, r), n at least 1; they have "
            f"{y.shape} and {probabilities.shape}"
        )
    if probabilities.shape[1] < 2:
        raise ValueError("there must be at least two categories")
    if not np.isin(y, np.arange(probabilities.shape[1])).all():
        raise ValueError(f"categories must be 0, ..., {probabilities.shape[1] - 1}, one for each column")
    if not ((probabilities >= 0).all() and np.allclose(probabilities.sum(axis=1), 1, rtol=0, atol=ROUNDING)):
        raise ValueError("probabilities must not be negative, and each row must sum to 1")
    return y.astype(np.int64), probabilities


def labels_and_probabilities(y: ArrayLike, probability: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels 0 and 1 and probabilities of label 1 as arrays of shape (n,), after checking them."""
    refuse_masked("y", y)
    refuse_masked("probability", probability)
    y = np.asarray(y)
    probability = np.asarray(probability, dtype=np.float64)
    if y.ndim != 1 or not y.size or y.shape != probability.shape:
        raise ValueError(
            "y and probability must be vectors of equal length, at least 1; their shapes are "
            f"{y.shape} and {probability.shape}"
        )
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    if not ((probability >= 0) & (probability <= 1)).all():
        raise ValueError("probabilities must be between 0 and 1")
    return y.astype(np.int64), probability
