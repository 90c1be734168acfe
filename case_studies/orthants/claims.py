"""Statements of the article about its counts, and gaps in them: their bias, and how often no particle is left."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from case_studies.orthants.methods import method
from case_studies.orthants.problems import Problem

__all__ = ["equicorrelated", "extinction", "mean_ratio", "process"]


def equicorrelated(n: int) -> Problem:
    """Correlations of one half, whose orthant has probability 1 / (n + 1): f constant with variance one, labels one."""
    return Problem(np.ones((n, n)), np.ones(n, dtype=int), np.empty((n, 0)), np.empty(0))


def mean_ratio(rng: np.random.Generator, name: str, n: int, draws: int, repetitions: int) -> dict[str, Any]:
    """The mean of estimate / truth, which is one without bias, and its standard error."""
    problem, estimate = equicorrelated(n), method(name)
    logs = np.array([estimate(rng, problem, draws).log_evidence for _ in range(repetitions)])
    ratios = (n + 1) * np.exp(logs)
    return {"ratio": float(ratios.mean()), "error": float(ratios.std(ddof=1) / np.sqrt(repetitions))}


def process(rng: np.random.Generator, n: int, variance: float) -> Problem:
    """Labels of a smooth process over N(0, I) inputs in the plane, with length-scale one."""
    X = rng.normal(size=(n, 2))
    covariance = variance * np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=-1))
    f = np.linalg.cholesky(covariance + 1e-8 * variance * np.eye(n)) @ rng.normal(size=n)
    y = (rng.uniform(size=n) < ndtr(f)).astype(int)
    return Problem(covariance, y, np.empty((n, 0)), np.empty(0))


def extinction(
    rng: np.random.Generator, problem: Problem, name: str, draws: int, repetitions: int, reference: float
) -> dict[str, Any]:
    """How many of the runs have no particle left, and how far the others are from log p(y|theta)."""
    estimate = method(name)
    logs = np.array([estimate(rng, problem, draws).log_evidence for _ in range(repetitions)])
    alive = logs[np.isfinite(logs)]
    return {
        "runs": repetitions,
        "extinct": int(repetitions - len(alive)),
        "median_error": float(np.median(alive) - reference) if len(alive) else float("nan"),
    }
