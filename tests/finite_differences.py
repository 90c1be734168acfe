"""Derivatives by central differences, for comparison."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def central_differences(
    function: Callable[[np.ndarray], np.ndarray | float], at: np.ndarray, step: float
) -> np.ndarray:
    """Derivatives by each element of the argument: (...) -> (dimension, ...).

    Fourth order in the step, so that steps can be long and rounding matters little.
    """

    def difference(direction: np.ndarray) -> np.ndarray:
        near = np.asarray(function(at + direction)) - np.asarray(function(at - direction))
        far = np.asarray(function(at + 2.0 * direction)) - np.asarray(function(at - 2.0 * direction))
        return (8.0 * near - far) / (12.0 * step)

    return np.array([difference(direction) for direction in step * np.eye(at.size)])
