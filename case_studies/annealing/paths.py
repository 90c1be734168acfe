"""Figure 1: the densities between prior and posterior, and between Laplace's q and posterior, in two dimensions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from pmgp.core.approximations import Laplace
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.transitions.parallel_slices import slices_on_ellipses

__all__ = ["BETAS", "Path", "Reference", "anneal", "evidence", "example", "log_density", "truth"]

VARIANCE, LENGTHSCALE = 15.0, np.exp(-1.0)
BETAS = np.append(0.0, np.exp(-np.arange(4, -1, -1) / 2.0))
"""The article's exp(-j / 2), from j = 4 down to 0, after beta = 0; it does not say how many it has."""


Reference = DensePrior | SiteApproximation
"""Where particles start."""


class Example(NamedTuple):
    """Two points that are far from each other, both with label one."""

    prior: DensePrior
    likelihood: BernoulliProbit
    approximation: SiteApproximation


class Path(NamedTuple):
    """Particles on their way.

    Attributes
    ----------
    particles : (s, draws, n) array
        Where they stand before the factor of each step is collected: drawn from the reference at first, then after a
        move at each temperature between 0 and 1. The last are those that the estimate weights.
    log_weights : (draws,) array
        Estimates of p(y|theta), unbiased each.
    """

    particles: np.ndarray
    log_weights: np.ndarray


def example() -> Example:
    """The article's data, covariance and Laplace approximation."""
    X = np.array([[-1.0, -1.0], [1.0, 1.0]])
    squared = np.square(X[:, None] - X).sum(axis=-1)
    prior = DensePrior(np.zeros(2), np.asfortranarray(VARIANCE * np.exp(-0.5 * squared / LENGTHSCALE**2)))
    likelihood = BernoulliProbit(np.array([1, 1]))
    return Example(prior, likelihood, Laplace(tolerance=1e-10, sweeps=0).fit(prior, likelihood))


def anneal(
    rng: np.random.Generator,
    reference: Reference,
    likelihood: BernoulliProbit,
    betas: np.ndarray,
    draws: int,
) -> Path:
    """Take particles from a reference to the posterior, and keep the places where they rest.

    The same as :class:`pmgp.estimators.AnnealedImportanceSampling`, which keeps only the ends.

    Parameters
    ----------
    rng : numpy.random.Generator
    reference : DensePrior or SiteApproximation
        The prior, or q.
    likelihood : BernoulliProbit
    betas : (s + 1,) array
        From 0 to 1.
    draws : int
    """

    def log_ratio(deviations: np.ndarray) -> np.ndarray:
        return reference.log_ratio(likelihood, reference.mean + deviations)

    deviations = reference.sample_deviations(rng, draws)
    values, steps = log_ratio(deviations), np.diff(betas)
    stops, log_weights = [deviations], steps[0] * values
    for beta, step in zip(betas[1:-1], steps[1:], strict=True):
        ellipses = reference.sample_deviations(rng, draws)
        deviations, _, values = slices_on_ellipses(rng, deviations, ellipses, log_ratio, values, beta)
        stops.append(deviations)
        log_weights = log_weights + step * values
    normalizer = reference.log_normalizer if isinstance(reference, SiteApproximation) else 0.0
    return Path(reference.mean + np.array(stops), log_weights + normalizer)


def log_density(example: Example, reference: Reference, beta: float, f: np.ndarray) -> np.ndarray:
    """Log g(f) of eqs. 12 and 13, up to a constant: (..., 2) -> (...).

    g is the posterior over the ratio to the reference, to the power of 1 - beta.
    """
    joint = -0.5 * (f @ np.linalg.inv(example.prior.covariance) * f).sum(axis=-1)
    joint = joint + example.likelihood.log_likelihood(f)
    return joint - (1.0 - beta) * reference.log_ratio(example.likelihood, f)


def truth(example: Example) -> float:
    """Log p(y|theta): the points are all but independent, Phi(0) = 1/2 each, and the rest is the orthant's formula."""
    variance, covariance = example.prior.covariance[0, 0], example.prior.covariance[1, 0]
    return float(np.log(0.25 + np.arcsin(covariance / (1.0 + variance)) / (2.0 * np.pi)))


def evidence(rng: np.random.Generator, draws: int) -> pd.DataFrame:
    """How well single particles estimate p(y|theta), with and without annealing."""
    given = example()
    references: dict[str, Reference] = {"prior": given.prior, "Laplace's q": given.approximation}
    schedules = {"none": np.array([0.0, 1.0]), "as drawn": BETAS}
    rows = {}
    for start, reference in references.items():
        for name, betas in schedules.items():
            logs = anneal(rng, reference, given.likelihood, betas, draws).log_weights
            rows[start, name] = {
                "estimate of log p(y|θ)": float(log_mean_exp(logs)),
                "truth": truth(given),
                "sd of a particle's log weight": float(logs.std(ddof=1)),
            }
    return pd.DataFrame(rows).T.rename_axis(["from", "annealing"])
