"""Posterior means of two hyper-parameters from a grid, as exact as chains need."""

from __future__ import annotations

import numpy as np

from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.interface.model.latent_gaussian import LatentGaussianModel

__all__ = ["grid_means"]


def grid_means(parts: LatentGaussianModel, *axes: np.ndarray, draws: int = 400) -> np.ndarray:
    """Means of theta over a grid with these axes, with p(y|theta) by many importance samples."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    evaluate, rng, values = Evaluator(parts, ExpectationPropagation()), np.random.default_rng(4), []
    for theta in points:
        ready = evaluate.prepare(evaluate(theta, None))
        estimate = ImportanceSampling(draws).estimate(rng, ready.approximation, ready.likelihood)
        values.append(ready.log_prior + estimate.log_evidence)
    weights = np.exp(np.array(values) - max(values))
    return weights @ points / weights.sum()
