"""Two signs that need no exact run: the Pareto k of importance weights of theta, and the spread of evidence estimates.

Draws of theta from an approximation are weighted by unbiased estimates of p(y|theta). With the weights' means one also
predicts how far the exact means are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm

from case_studies.approximations.posteriors import Posterior
from pmgp.core.importance import fitted
from pmgp.interface.importance.estimates import Estimates
from pmgp.interface.importance.trust import trust_in
from pmgp.interface.steps.shared import share

__all__ = ["chosen", "signs", "signs_of_fit", "spread"]

REPEATS, PARTICLES = 20, 64
"""Estimates of p(y|theta) whose spread is measured, and importance samples of each: a user's defaults."""


class Weighing:
    """Unbiased estimates of p(y|theta) from one approximation's importance samples.

    Parameters
    ----------
    posterior : Posterior
    model : pymc.Model
        Its model with latent values.
    approximation : str
    """

    def __init__(self, posterior: Posterior, model: pm.Model, approximation: str) -> None:
        self.names = list(posterior.theta)
        self.parts = share(model, given_theta=False).parts
        self.estimates = Estimates(self.parts, approximation=approximation)
        self.repeated = Estimates(self.parts, approximation=approximation, draws=PARTICLES)

    def vector(self, theta: np.ndarray) -> np.ndarray:
        """Return theta in the order of the model, from logarithms in the order of the names."""
        return self.parts.ravel({f"{name}_log__": np.array(one) for name, one in zip(self.names, theta, strict=True)})

    def log_joint(self, rng: np.random.Generator, theta: np.ndarray) -> float:
        """Return the log of p(theta) times an estimate of p(y|theta); theta on the log scale."""
        return self.estimates.log_joint(rng, self.vector(theta))

    def log_likelihood(self, rng: np.random.Generator, theta: np.ndarray) -> float:
        """Return the log of an estimate of p(y|theta)."""
        ready = self.estimates.ready(self.vector(theta))
        return -np.inf if ready is None else self.estimates.fresh(rng, ready).log_evidence


def chosen(theta: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Return positions of a number of draws, evenly spaced over all chains."""
    total = next(iter(theta.values())).size
    return np.linspace(0, total - 1, min(count, total)).round().astype(int)


def _rows(theta: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.stack([values.ravel() for values in theta.values()], axis=1)


def signs(
    weighing: Weighing, theta: Mapping[str, np.ndarray], log_evidence: np.ndarray, count: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Weight draws of a chain that samples an approximation's own p(y|theta).

    Parameters
    ----------
    weighing : Weighing
        With importance samples from the same approximation.
    theta : mapping
        Logarithms of hyper-parameters: (chains, draws) each.
    log_evidence : (chains, draws) array
        The approximation's log p(y|theta).
    count : int
        How many of the draws are weighted.
    rng : numpy.random.Generator
    """
    places = chosen(theta, count)
    rows = _rows(theta)[places]
    estimated = np.array([weighing.log_likelihood(rng, row) for row in rows])
    return _found(rows, estimated - log_evidence.ravel()[places])


def signs_of_fit(
    weighing: Weighing, theta: Mapping[str, np.ndarray], count: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Weight draws from t distributions that are fitted to an approximation's draws of theta."""
    proposal = fitted(rng, _rows(theta))
    rows = proposal.sample(rng, count)
    joint = np.array([weighing.log_joint(rng, row) for row in rows])
    return _found(rows, joint - proposal.log_density(rows))


def _found(rows: np.ndarray, log_weights: np.ndarray) -> dict[str, Any]:
    """Return Pareto k with its limit, the share of draws that the weights are worth, and how they shift the means."""
    trust = trust_in(log_weights)
    weights = np.exp(log_weights - log_weights.max())
    shifts = weights @ rows / weights.sum() - rows.mean(axis=0)
    return {
        "pareto_k": trust.pareto_k,
        "k_limit": trust.limit,
        "worth": trust.effective_size / trust.size,
        "weighed": trust.size,
        "shifts": shifts.tolist(),
    }


def spread(weighing: Weighing, theta: np.ndarray, rng: np.random.Generator) -> float:
    """Return the standard deviation of estimates of log p(y|theta) at one theta on the log scale."""
    ready = weighing.repeated.ready(weighing.vector(theta))
    if ready is None:
        return np.inf
    return float(np.std([weighing.repeated.fresh(rng, ready).log_evidence for _ in range(REPEATS)], ddof=1))
