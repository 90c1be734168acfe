"""The methods that are compared: each gives log p(y|theta), and probabilities of new labels, from a number of draws."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from case_studies.orthants.control_variables import sampled
from case_studies.orthants.one_feature import counted
from case_studies.orthants.problems import Problem
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators import AnnealedImportanceSampling, Estimator, ImportanceSampling
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import DensePrior, SiteApproximation
from pmgp.core.latent_updates.hmc import HamiltonianUpdate
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.orthants import log_probability
from pmgp.core.orthants.ordering import Ordered, ordered
from pmgp.core.orthants.problem import TruncatedNormal
from pmgp.core.orthants.recursion import twisted
from pmgp.core.orthants.resampling import Particles, hard_count, sequential_monte_carlo, soft_count
from pmgp.core.transitions.elliptical_slice import slice_on_ellipse

__all__ = ["METHODS", "Found", "conditional", "method"]

# Makes covariances of low rank nonsingular, where a method needs their factor.
JITTER = 1e-8
# For elliptical slice sampling, as the article has it: moves for each draw, and draws that are discarded.
SKIPPED, BURN_IN = 40, 10
# Slice moves whose ellipses are drawn together.
TOGETHER = 400


class Found(NamedTuple):
    """An estimate: log p(y|theta), not a number where the method has none, and probabilities of label 1, (m,)."""

    log_evidence: float
    probability: np.ndarray


Method = Callable[[np.random.Generator, Problem, int], Found]


class Conditional(NamedTuple):
    """Distribution of f at the new points given n values: weights (n, m) and variances (m,)."""

    weights: np.ndarray
    variance: np.ndarray

    def chances(self, values: np.ndarray) -> np.ndarray:
        """Return the probabilities of label 1 given values (k, n): (k, m)."""
        return ndtr(values @ self.weights / np.sqrt(1.0 + self.variance))


def conditional(problem: Problem, noise: float) -> Conditional:
    """Given f with independent noise of this variance."""
    weights = np.linalg.solve(problem.covariance + noise * np.eye(problem.size), problem.cross)
    variance = problem.variance - np.einsum("ij,ij->j", problem.cross, weights)
    return Conditional(weights, np.maximum(variance, 0.0))


def _resampled(
    propagate: Callable[[np.random.Generator, Ordered, int], Particles],
    rng: np.random.Generator,
    problem: Problem,
    draws: int,
) -> Found:
    """One population; the counts take the variables in random order, and "hard" counts new labels too."""
    target = TruncatedNormal.checked(0.0, np.inf, 0.0, problem.orthant)
    order = None if propagate is sequential_monte_carlo else rng.permutation(problem.size)
    taken = ordered(target.correlation, *target.limits, order)
    population = propagate(rng, taken, draws)
    unknown = np.full(problem.cross.shape[1], np.nan)
    if population.log_estimate == -np.inf or not unknown.size:
        return Found(population.log_estimate, unknown)
    v = problem.signs * target.restored(taken.original(population.values))
    chances = conditional(problem, 1.0).chances(v)
    if propagate is hard_count:
        chances = rng.uniform(size=chances.shape) < chances
    return Found(population.log_estimate, chances.mean(axis=0))


def _on_one_feature(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    return Found(*counted(rng, problem, draws))


def _sequential(name: str, rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    found = log_probability(0.0, np.inf, 0.0, problem.orthant, method=name, draws=draws, random_seed=rng)
    given = conditional(problem, 1.0)
    return Found(found.log_probability, found.expectation(given.chances(problem.signs * found.draws))[0])


def _in_random_order(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    """GHK, except for the order of its variables, which is that of the counts."""
    target = TruncatedNormal.checked(0.0, np.inf, 0.0, problem.orthant)
    taken = ordered(target.correlation, *target.limits, rng.permutation(problem.size))
    paths = twisted(taken, *np.zeros((2, problem.size))).draw(rng.uniform(size=(problem.size, draws)))
    log_evidence = float(log_mean_exp(paths.log_weights))
    weights = np.exp(paths.log_weights - paths.log_weights.max())
    v = problem.signs * target.restored(taken.original(paths.values))
    return Found(log_evidence, weights @ conditional(problem, 1.0).chances(v) / weights.sum())


def _approximation(problem: Problem) -> SiteApproximation:
    covariance = np.asfortranarray(problem.covariance + JITTER * np.eye(problem.size))
    prior = DensePrior(np.zeros(problem.size), covariance).factorized()
    return ExpectationPropagation().fit(prior, BernoulliProbit(problem.y))


def _expectation_propagation(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    q, given = _approximation(problem), conditional(problem, JITTER)
    variance = 1.0 + given.variance + np.einsum("ij,ij->j", given.weights, q.product(given.weights))
    return Found(q.log_evidence, ndtr(q.mean @ given.weights / np.sqrt(variance)))


def _estimated(estimator: Callable[[int], Estimator], rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    """By an estimator of pseudo-marginal chains, from the approximation by expectation propagation."""
    found = estimator(draws).estimate(rng, _approximation(problem), BernoulliProbit(problem.y))
    chances = conditional(problem, JITTER).chances(found.particles)
    return Found(found.log_evidence, found.normalized_weights @ chances)


def _elliptical_slices(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    """A chain of f about the prior, which has no evidence; from zero."""
    prior = DensePrior(np.zeros(problem.size), np.asfortranarray(problem.covariance + JITTER * np.eye(problem.size)))
    likelihood = BernoulliProbit(problem.y)
    f = np.zeros(problem.size)
    value = float(likelihood.log_likelihood(f))
    kept = np.empty((draws + BURN_IN, problem.size))
    for start in range(0, SKIPPED * len(kept), TOGETHER):
        for index, auxiliary in enumerate(prior.sample(rng, TOGETHER), start):
            f, value, _ = slice_on_ellipse(rng, f, auxiliary, likelihood.log_likelihood, value)
            if index % SKIPPED == SKIPPED - 1 and index // SKIPPED < len(kept):
                kept[index // SKIPPED] = f
    return Found(np.nan, conditional(problem, JITTER).chances(kept[BURN_IN:]).mean(axis=0))


def _control_variables(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    """A chain of f by its control variables, without its first tenth, in which they are chosen."""
    covariance, burn_in = problem.covariance + JITTER * np.eye(problem.size), draws // 10
    kept = sampled(rng, covariance, BernoulliProbit(problem.y), draws - burn_in, burn_in, JITTER)
    given = conditional(problem, JITTER)
    return Found(np.nan, np.mean([given.chances(values).mean(axis=0) for values in kept], axis=0))


def _hamiltonian(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    """A chain of the whitened f, with as many trajectories between draws as the other chain has moves; from zero."""
    covariance = np.asfortranarray(problem.covariance + JITTER * np.eye(problem.size))
    update, prior = HamiltonianUpdate("prior"), DensePrior(np.zeros(problem.size), covariance).factorized()
    target = update.prepare(prior, BernoulliProbit(problem.y))
    point, step = update.init(target, np.zeros(problem.size)), update.initial_step_size(problem.size)
    kept = []
    for index in range(1, SKIPPED * (draws + BURN_IN) + 1):
        point, info = update.step(rng, point, target, step)
        if index <= SKIPPED * BURN_IN:
            step *= np.exp((info.acceptance_rate - update.target_acceptance) / np.sqrt(index))
        elif index % SKIPPED == 0:
            kept.append(point.payload)
    return Found(np.nan, conditional(problem, JITTER).chances(np.array(kept)).mean(axis=0))


def _scipy(rng: np.random.Generator, problem: Problem, draws: int) -> Found:
    """Genz's lattice with this number of points; it has no draws to predict from."""
    zeros = np.zeros(problem.size)
    given = multivariate_normal(zeros, problem.orthant, seed=rng, maxpts=draws, abseps=1e-300, releps=1e-300)
    # By symmetry the orthant below zero has the probability of the one above.
    return Found(float(given.logcdf(zeros)), np.full(problem.cross.shape[1], np.nan))


METHODS: dict[str, Method] = {
    "GPC-MC hard": partial(_resampled, hard_count),
    "GPC-MC soft": partial(_resampled, soft_count),
    "GPC-MC one feature": _on_one_feature,
    "SMC": partial(_resampled, sequential_monte_carlo),
    "GHK": partial(_sequential, "ghk"),
    "GHK random": _in_random_order,
    "Botev": partial(_sequential, "tilted"),
    "EP-twisted": partial(_sequential, "ep"),
    "EP": _expectation_propagation,
    "EP importance": partial(_estimated, ImportanceSampling),
    "AIS": partial(_estimated, lambda draws: AnnealedImportanceSampling(draws=draws)),
    "control variables": _control_variables,
    "ESS": _elliptical_slices,
    "HMC": _hamiltonian,
    "SciPy": _scipy,
}
"""By name. "GPC-MC" is the article's, "EP-twisted" the package's default; "random" has the order of the counts."""


def method(name: str) -> Method:
    """One of :data:`METHODS`.

    Raises
    ------
    ValueError
        For another name.
    """
    if name not in METHODS:
        raise ValueError(f"no method {name!r}; there are {', '.join(METHODS)}")
    return METHODS[name]
