"""The inverse curvature that BFGS learns from steps and from gradients (Nocedal and Wright 2006, equation 6.17)."""

from __future__ import annotations

import numpy as np


def after_step(inverse: np.ndarray, step: np.ndarray, fall: np.ndarray) -> np.ndarray:
    """Return the inverse of minus the Hessian after a step: (dimension, dimension).

    It is unchanged where the density is not concave along the step.

    - `inverse` (dimension, dimension): the one before the step
    - `step` (dimension,)
    - `fall` (dimension,): the gradient before the step, less that after it
    """
    product = float(step @ fall)
    if product <= 1e-8 * np.linalg.norm(step) * np.linalg.norm(fall):
        return inverse
    left = np.eye(len(step)) - np.outer(step, fall) / product
    return left @ inverse @ left.T + np.outer(step, step) / product
