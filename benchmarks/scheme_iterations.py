"""Cost of one update of theta in each scheme, beside the LAPACK calls that it cannot do without."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from time import perf_counter
from typing import Any

import numpy as np
import pymc as pm
from scipy.linalg.lapack import dpotrf, dpotri
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks.problems import Problem, load

__all__ = ["PROBLEMS", "SCHEMES", "measure", "rows"]

PROBLEMS = ("synthetic-100", "synthetic-400", "breast", "banknote")
SCHEMES = (
    pmgp.steps.Ancillary,
    pmgp.steps.Sufficient,
    pmgp.steps.Interweaving,
    pmgp.steps.Surrogate,
    pmgp.steps.JointUpdate,
)
# Tuning, and seconds of measured iterations after it.
TUNE = 100
SECONDS = 8.0
# In turn: LAPACK calls, and iterations.
CALLS, ITERATIONS = 4, 20


def rows(names: Collection[str]) -> Iterator[dict[str, Any]]:
    """A row for every problem and scheme."""
    for name in names:
        for scheme in SCHEMES:
            yield measure(load(name), scheme)


def measure(problem: Problem, scheme: type, seconds: float = SECONDS) -> dict[str, Any]:
    """Run one chain in this process with one BLAS thread, without a step method for f.

    Blocks of iterations and LAPACK calls on the same covariance take turns, so that both meet the same conditions.

    Returns
    -------
    dict
        Medians: ``ms`` an iteration (whole step, PyMC's trace not included), ``dpotrf ms``, and their ratio
        ``dpotrfs``; ``C``, ``I``, ``M`` of an iteration, and ``ratio``, its time over that of C times dpotrf and I
        times dpotri.
    """
    with threadpool_limits(limits=1), problem.model() as model:
        step = scheme(model=model)
        point = _tuned(step, model)
        lapack = _Lapack(step.shared_model.prior(step.model.parts.ravel(point)).factorized().factor)
        times, calls, counts = [], [], []
        end = perf_counter() + seconds
        while perf_counter() < end:
            calls += [lapack.seconds() for _ in range(CALLS)]
            for _ in range(ITERATIONS):
                start = perf_counter()
                point, [stats] = step.step(point)
                times.append(perf_counter() - start)
                counts.append((stats["n_cholesky"], stats["n_inverse"], stats["n_matmul"]))
    iteration = float(np.median(times))
    cholesky, inversion = map(float, np.median(calls, axis=0))
    c, i, m = map(float, np.mean(counts, axis=0))
    return {
        "data": problem.name,
        "n": len(problem.y),
        "scheme": scheme.__name__,
        "ms": 1e3 * iteration,
        "dpotrf ms": 1e3 * cholesky,
        "dpotrfs": iteration / cholesky,
        "C": c,
        "I": i,
        "M": m,
        "ratio": iteration / (c * cholesky + i * inversion),
        "iterations": len(times),
    }


def _tuned(step: Any, model: pm.Model) -> dict[str, np.ndarray]:
    step.setup_chain(np.random.default_rng(1), TUNE, TUNE)
    point = model.initial_point()
    for _ in range(TUNE):
        point, _ = step.step(point)
    step.stop_tuning()
    return point


class _Lapack:
    """A factorization in place, and an inversion from the factor."""

    def __init__(self, factor: np.ndarray) -> None:
        lower = np.tril(factor)
        self.source = np.asfortranarray(lower @ lower.T)
        self.buffer = np.empty_like(self.source)

    def seconds(self) -> tuple[float, float]:
        """Times of one dpotrf and of one dpotri."""
        self.buffer[...] = self.source
        start = perf_counter()
        dpotrf(self.buffer, lower=1, overwrite_a=1, clean=0)
        middle = perf_counter()
        dpotri(self.buffer, lower=1, overwrite_c=1)
        return middle - start, perf_counter() - middle
