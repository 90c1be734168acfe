"""What an iteration does at the theta that it has reached, by one kernel: a move of f, and a refreshment given it.

A kernel for it is there for the likelihoods that `core.likelihoods.compiled_terms` names. It takes what the steps one
by one take from the generator, in their order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.estimators.importance import ImportanceSampling, WeightedParticles, number_of_draws
from pmgp.core.gaussians import Posterior, SiteApproximation
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.likelihoods.compiled_terms import RENEWED, kernel_with_terms
from pmgp.core.numerics.compiled.loading import uniform_numbers
from pmgp.core.numerics.ledger import record

__all__ = ["renewed"]


def renewed(
    rng: np.random.Generator,
    particle: np.ndarray,
    q: Posterior,
    likelihood: Likelihood,
    estimator: Any,
    draws: int | None,
) -> tuple[np.ndarray, WeightedParticles, np.ndarray] | None:
    """Make one slice move of a draw of f, and an estimate given it; None where there is no kernel for that.

    Parameters
    ----------
    rng : numpy.random.Generator
    particle : (n,) array
        A draw from p(f|theta, y).
    q : Posterior
    likelihood : Likelihood
    estimator : Estimator
    draws : int, optional
        Number of samples where the estimator's own is "auto".

    Returns
    -------
    moved : (n,) array
    estimate : WeightedParticles
        Its first particle is the one that was moved.
    picked : (n,) array
        One of its particles, by the weights.
    """
    kernel = kernel_with_terms(likelihood, RENEWED)
    # What is derived from the estimator may make other estimates.
    if kernel is None or type(estimator) is not ImportanceSampling or not isinstance(q, SiteApproximation):
        return None
    number = number_of_draws(estimator.draws if draws is None else draws)
    redrawn, n = estimator.redrawn(number), q.size
    if redrawn == 0:
        return None
    normals, moved, particles = rng.standard_normal((2, 1 + redrawn, n)), np.empty(n), np.empty((number, n))
    log_weights, weights = np.empty(number), np.empty(number)
    given = np.ascontiguousarray(particle, np.float64), rng.standard_exponential(), *uniform_numbers(rng)
    written = normals[0], normals[1], moved, particles, log_weights, weights
    known = *q.sites_and_mean, *q.matrices, q.log_normalizer
    log_evidence, multiplied, chosen = kernel(*known, *given, estimator.antithetic, *written)
    if multiplied:
        record("matvec", 1 + redrawn)
    return moved, WeightedParticles.of(log_evidence, particles, log_weights, weights), particles[chosen]
