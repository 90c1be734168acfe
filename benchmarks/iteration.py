"""Cost of one iteration: milliseconds, O(n^3) operations, the ratio to the same LAPACK calls, and PyMC's share."""

from __future__ import annotations

from time import process_time
from typing import Any

import numpy as np
import pymc as pm
from scipy.linalg.lapack import dpotrf, dtrtri
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks.problems import Problem
from pmgp.core.estimators import Estimator

__all__ = ["measure"]

BLOCKS = 5
# Draws that PyMC records for its own time.
RECORDED = 500


def lapack_seconds(n: int, repetitions: int = 20) -> tuple[float, float]:
    """Median processor times of one dpotrf in place and of one dtrtri of its factor, lower, Fortran order."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, 3))
    source = np.asfortranarray(np.exp(-0.5 * np.square(x[:, None] - x).sum(axis=-1)) + np.eye(n))
    buffer = np.empty_like(source)
    times = np.empty((repetitions, 2))
    for row in times:
        buffer[...] = source
        start = process_time()
        dpotrf(buffer, lower=1, overwrite_a=1, clean=0)
        middle = process_time()
        dtrtri(buffer, lower=1, overwrite_c=1)
        row[:] = middle - start, process_time() - middle
    cholesky, inverse = np.median(times, axis=0)
    return float(cholesky), float(inverse)


def pymc_seconds(step: pmgp.PseudoMarginal, point: dict[str, np.ndarray], stats: dict[str, Any]) -> float:
    """Median processor time that PyMC adds to an iteration in the process that draws: points, statistics, trace.

    PyMC samples with the step method, which gives the same point and statistics again instead of moving; it
    forgets its chain.
    """
    times: list[float] = []
    step.step = lambda _: (point, [stats])
    pm.sample(
        RECORDED,
        tune=0,
        chains=1,
        cores=1,
        step=step,
        progressbar=False,
        compute_convergence_checks=False,
        callback=lambda **_: times.append(process_time()),
    )
    del step.step
    return float(np.median(np.diff(times)))


def measure(
    problem: Problem,
    approximation: str = "laplace",
    estimator: Estimator | str = "importance",
    tune: int = 500,
    draws: int = 500,
) -> dict[str, float | str]:
    """Run one chain in this process with one BLAS thread.

    Returns
    -------
    dict
        ``ms`` of processor time per iteration after tuning (whole step, PyMC's trace not included), ``C``, ``I``, ``M``
        an iteration, ``ratio`` of the time to that of the same LAPACK calls (dpotrf for C, dtrtri for I) alone, timed
        in between, the iteration's equivalent in Cholesky factorizations ``dpotrfs``, and what PyMC adds in
        milliseconds, with the ratio that makes.
    """
    with threadpool_limits(limits=1), problem.model() as model:
        step = pmgp.PseudoMarginal(model=model, approximation=approximation, estimator=estimator)
        step.setup_chain(np.random.default_rng(1), tune, draws)
        point = model.initial_point()
        for _ in range(tune):
            point, _ = step.step(point)
        step.stop_tuning()
        rows, times, unit = [], [], []
        for _ in range(BLOCKS):
            unit.append(lapack_seconds(len(problem.y)))
            start = process_time()
            for _ in range(draws // BLOCKS):
                point, [stats] = step.step(point)
                rows.append((stats["n_cholesky"], stats["n_inverse"], stats["n_matmul"], stats["accepted"]))
            times.append((process_time() - start) / (draws // BLOCKS))
        importance_draws = step.frozen.draws
        by_pymc = pymc_seconds(step, point, stats)
    cholesky, inverse, matmul, accepted = np.mean(rows, axis=0)
    seconds = float(np.median(times))
    dpotrf_seconds, dtrtri_seconds = np.median(unit, axis=0)
    lapack = cholesky * dpotrf_seconds + inverse * dtrtri_seconds
    return {
        "data": problem.name,
        "q": approximation,
        "estimator": type(step.scheme.estimator).__name__,
        "n": len(problem.y),
        "ms": 1e3 * seconds,
        "C": cholesky,
        "I": inverse,
        "M": matmul,
        "dpotrf ms": 1e3 * dpotrf_seconds,
        "ratio": seconds / lapack,
        "PyMC ms": 1e3 * by_pymc,
        "ratio with PyMC": (seconds + by_pymc) / lapack,
        "dpotrfs": seconds / dpotrf_seconds,
        "accepted": accepted,
        "N_imp": importance_draws,
    }
