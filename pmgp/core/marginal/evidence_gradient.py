"""The gradient in theta of the approximation's log-evidence, and of the screen.

The part through K and m is exact at the approximation's fixed point. The part through the likelihood's own parameters
is a central difference, in O(n) for each, because sites (or the mode) stay fixed.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from pmgp.core.approximations import Differentiable
from pmgp.core.gaussians import Posterior
from pmgp.core.joint_density import DifferentiableMarginal
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.marginal.evaluation import Evaluation, Evaluator, Fitted

# Step of the central differences.
STEP = 1e-5


def evidence_gradient(
    model: DifferentiableMarginal,
    approximation: Differentiable,
    theta: np.ndarray,
    q: Posterior,
    likelihood: Likelihood,
) -> np.ndarray | None:
    """Return the gradient of q's log-evidence in theta.

    `approximation`: the approximation that found q; `theta` (dimension,); `likelihood`: likelihood at theta.

    Returns None if K turns out to be indefinite.
    """
    gradient = approximation.evidence_gradient(q, likelihood)
    if gradient is None:
        return None
    total = model.covariance_pullback(theta, gradient.covariance, gradient.mean)
    for element in model.likelihood_elements:
        shift = np.zeros_like(theta)
        shift[element] = STEP
        above, below = gradient.along(model.likelihood(theta + shift)), gradient.along(model.likelihood(theta - shift))
        total[element] += (above - below) / (2.0 * STEP)
    return total


def screen_gradient(evaluate: Evaluator, evaluation: Evaluation) -> np.ndarray:
    """Return the gradient of log p(theta) plus the log-evidence, or NaN if there is no q.

    The model must be a `DifferentiableMarginal`, and the approximation `Differentiable`.
    """
    nowhere = np.full(evaluation.theta.shape, np.nan)
    if not isinstance(evaluation, Fitted):
        return nowhere
    model, theta = cast(DifferentiableMarginal, evaluate.model), evaluation.theta
    approximation = cast(Differentiable, evaluate.approximation)
    gradient = evidence_gradient(model, approximation, theta, evaluation.approximation, evaluation.likelihood)
    return nowhere if gradient is None else model.log_prior_gradient(theta) + gradient
