"""How far estimates of p(y|theta) scatter: r of eq. 14, the measure of Figure 2."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from case_studies.annealing.chains import EVERY_MOVE
from case_studies.annealing.problems import VARIANCE, Problem, simulate, synthetic_prior
from case_studies.tools.stream import stream
from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import AnnealedImportanceSampling, Estimator, ImportanceSampling
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator

__all__ = ["by_ellipses", "by_variance", "spread"]

ELLIPSES = {"one": 1, "three": 3, "one a move": EVERY_MOVE}


def spread(
    rng: np.random.Generator,
    problem: Problem,
    theta: np.ndarray,
    approximation: Approximation,
    estimator: Estimator,
    repetitions: int,
) -> dict[str, Any]:
    """Measure r at one theta.

    Parameters
    ----------
    rng : numpy.random.Generator
    problem : Problem
    theta : (dimension,) array
    approximation : Approximation
    estimator : Estimator
        Its number of draws is N_imp. Its particles are independent of one another, so those of all repetitions
        are drawn at once.
    repetitions : int

    Returns
    -------
    dict
        ``r``, the standard deviation of log10 p^(y|theta) over the repetitions, and ``seconds`` of processor time for
        all of them, the approximation not included.
    """
    evaluate = Evaluator(problem.parts, approximation)
    evaluation = evaluate.prepare(evaluate(theta, None))
    clock = time.process_time()
    particles = int(estimator.draws) * repetitions
    estimate = estimator.estimate(rng, evaluation.approximation, evaluation.likelihood, particles)
    seconds = time.process_time() - clock
    return {"r": _r(estimate.log_weights, repetitions), "seconds": seconds}


def _r(log_weights: np.ndarray, repetitions: int) -> float:
    logs = log_mean_exp(log_weights.reshape(repetitions, -1)) / np.log(10.0)
    return float(logs.std(ddof=1))


def by_variance(seed: int, sizes: Sequence[int], factors: Sequence[float], datasets: int) -> pd.DataFrame:
    """R of importance sampling from Laplace's q, with 4 particles and 100 repetitions, for several synthetic data sets.

    Tau is the one behind the data, and sigma a multiple of it. Rows are n, columns the factors and the data sets.
    """
    estimator, repetitions = ImportanceSampling(4, antithetic=False), 100
    found = {}
    for n in sizes:
        for number in range(datasets):
            data = simulate(stream(seed, "variance", n, number), n)
            likelihood = BernoulliProbit(data.y)
            for factor in factors:
                q = Laplace(sweeps=0).fit(synthetic_prior(data.X, factor * VARIANCE), likelihood)
                rng = stream(seed, "variance", n, number, f"{factor:g}")
                estimate = estimator.estimate(rng, q, likelihood, 4 * repetitions)
                found[n, f"σ = {factor * VARIANCE:g}", f"data {number + 1}"] = _r(estimate.log_weights, repetitions)
    return pd.Series(found).rename_axis(["n", None, None]).unstack([1, 2]).sort_index(axis=1)


def by_ellipses(seed: int, sizes: Sequence[int], factor: float, repetitions: int = 150) -> pd.DataFrame:
    """R of annealing with 4 particles, and milliseconds of one core per estimate.

    Rows are n and q, columns the numbers of auxiliary draws that the moves of a particle share. Tau is the one behind
    the data, and sigma a multiple of it.
    """
    approximations: dict[str, Approximation] = {"Laplace": Laplace(sweeps=0), "EP": ExpectationPropagation()}
    found = {}
    for n, (name, approximation) in product(sizes, approximations.items()):
        data = simulate(stream(seed, "ellipses", n), n)
        likelihood = BernoulliProbit(data.y)
        q = approximation.fit(synthetic_prior(data.X, factor * VARIANCE), likelihood)
        # So that the factorization is not in the first of the times.
        assert q.prior.factorized() is q.prior
        for label, ellipses in ELLIPSES.items():
            rng = stream(seed, "ellipses", n, name, label)
            estimator = AnnealedImportanceSampling(draws=4, ellipses=ellipses)
            # Threads that wait for each other spin, which would count as processor time.
            with threadpool_limits(limits=1):
                clock = time.process_time()
                logs = [estimator.estimate(rng, q, likelihood).log_evidence for _ in range(repetitions)]
                found["ms", label, n, name] = 1000.0 * (time.process_time() - clock) / repetitions
            found["r", label, n, name] = np.std(logs, ddof=1) / np.log(10.0)
    columns = pd.MultiIndex.from_product([("r", "ms"), ELLIPSES], names=[None, "ellipses"])
    return pd.Series(found).rename_axis([None, "ellipses", "n", "q"]).unstack([0, 1])[columns]
