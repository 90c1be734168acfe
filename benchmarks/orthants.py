"""The evidence of probit labels, the probability of an orthant: how estimates with 64 draws spread, and their time.

Each problem is one covariance: a squared exponential process with fixed hyper-parameters, labels drawn from it or real.
The truth is a long run of the default method. Processor time of one thread; the preparation, with expectation
propagation in it where it is needed, is apart from what 64 draws take.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import process_time
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr
from scipy.stats import multivariate_normal
from threadpoolctl import threadpool_limits

from benchmarks.problems import load
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators import ImportanceSampling, OrthantSampling
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.orthants import log_probability
from pmgp.core.orthants.probability import recursion
from pmgp.core.orthants.problem import TruncatedNormal

__all__ = ["Labels", "labels", "measure", "rows"]

DRAWS, REPEATS, PREPARATIONS = 64, 60, 5
REFERENCE = 20_000
# SciPy's lattice takes seconds for a value at n = 200.
POINTS, SCIPY_REPEATS = 20_000, 4


class Labels(NamedTuple):
    """A prior covariance and labels."""

    name: str
    covariance: np.ndarray
    y: np.ndarray

    @property
    def orthant(self) -> np.ndarray:
        """Covariance of f with the noise of the link, with the labels' signs."""
        signs = 2.0 * self.y - 1.0
        return np.outer(signs, signs) * self.covariance + np.eye(len(self.y))


def labels() -> Iterator[Labels]:
    """Those of the comparison: synthetic ones with N(0, I) inputs and length-scale 1, and crabs."""
    for variance, n in ((1.0, 200), (50.0, 200), (50.0, 500)):
        rng = np.random.default_rng(0)
        covariance = _process(rng.normal(size=(n, 2)), variance, 1.0)
        f = np.linalg.cholesky(covariance + 1e-8 * variance * np.eye(n)) @ rng.normal(size=n)
        yield Labels(f"variance {variance:g}, n = {n}", covariance, (rng.uniform(size=n) < ndtr(f)).astype(int))
    crabs = load("crabs")
    for variance, lengthscale in ((50.0, 3.0), (1000.0, 6.0)):
        name = f"crabs, variance {variance:g}, length-scale {lengthscale:g}"
        yield Labels(name, _process(crabs.X, variance, lengthscale), crabs.y)


def _process(X: np.ndarray, variance: float, lengthscale: float) -> np.ndarray:
    return variance * np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=-1) / lengthscale**2)


def rows() -> Iterator[dict]:
    with threadpool_limits(1):
        for given in labels():
            yield from measure(given)


def measure(given: Labels, repeats: int = REPEATS, scipy: bool = True) -> Iterator[dict]:
    """A row for each method."""
    reference = log_probability(0.0, np.inf, 0.0, given.orthant, draws=REFERENCE, random_seed=0)
    truth = reference.log_probability
    for method, prepare in _methods(given).items():
        estimate, preparation = _prepared(prepare)
        started = process_time()
        logs = np.array([estimate(seed) for seed in range(repeats)])
        yield _row(given, method, DRAWS, logs, truth, preparation, (process_time() - started) / repeats)
    if scipy and len(given.y) == 200:
        started = process_time()
        logs = np.array([_scipy(given, seed) for seed in range(SCIPY_REPEATS)])
        yield _row(given, "SciPy", POINTS, logs, truth, 0.0, (process_time() - started) / SCIPY_REPEATS)


def _prepared(prepare: Callable[[], Callable[[int], float]]) -> tuple[Callable[[int], float], float]:
    """Return the estimator, and the median of its seconds of preparation: the first loads compiled code, too."""
    seconds = []
    for _ in range(PREPARATIONS):
        started = process_time()
        estimate = prepare()
        seconds.append(process_time() - started)
    return estimate, float(np.median(seconds))


def _row(
    given: Labels, method: str, draws: int, logs: np.ndarray, truth: float, preparation: float, seconds: float
) -> dict:
    return {
        "data": given.name,
        "n": len(given.y),
        "method": method,
        "draws": draws,
        "log p": truth,
        "sd": float(logs.std(ddof=1)),
        "rms error": float(np.sqrt(np.mean(np.square(logs - truth)))),
        "preparation ms": 1e3 * preparation,
        "estimate ms": 1e3 * seconds,
    }


def _methods(given: Labels) -> dict[str, Callable[[], Callable[[int], float]]]:
    """By name, what prepares a function that estimates from a seed."""
    return {
        "importance sampling": lambda: _estimator(given, ImportanceSampling(DRAWS)),
        "orthant sampling": lambda: _estimator(given, OrthantSampling(DRAWS)),
        **{method: lambda method=method: _sequential(given, method) for method in ("ep", "tilted", "ghk")},
    }


def _estimator(given: Labels, estimator: ImportanceSampling | OrthantSampling) -> Callable[[int], float]:
    """From q, as in a chain; orthant sampling makes its factors in each estimate."""
    prior = DensePrior(np.zeros(len(given.y)), np.asfortranarray(given.covariance)).factorized()
    likelihood = BernoulliProbit(given.y)
    q = ExpectationPropagation().fit(prior, likelihood)
    return lambda seed: estimator.estimate(np.random.default_rng(seed), q, likelihood).log_evidence


def _sequential(given: Labels, method: str) -> Callable[[int], float]:
    drawn = recursion(TruncatedNormal.checked(0.0, np.inf, 0.0, given.orthant), method)

    def estimate(seed: int) -> float:
        half = np.random.default_rng(seed).uniform(size=(len(given.y), DRAWS // 2))
        return float(log_mean_exp(drawn.draw(np.concatenate([half, 1.0 - half], axis=1)).log_weights))

    return estimate


def _scipy(given: Labels, seed: int) -> float:
    zeros = np.zeros(len(given.y))
    distribution = multivariate_normal(zeros, given.orthant, seed=seed, maxpts=POINTS, abseps=1e-300, releps=1e-300)
    # By symmetry the orthant below zero has the probability of the one above.
    return float(distribution.logcdf(zeros))
