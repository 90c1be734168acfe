"""Chains, cells of a study and importance weights on one worker and on two, and what a model of their cost needs.

Workers are processes of this machine that have imported the packages. Each kind of work is done by one of them and
then by two, so that a ratio of 2 is the most there can be; both cores must be free. The work itself takes the same time
wherever it is done, and all other time is overhead. The load of the machine just before is noted: above some tenths,
other programs had a share of the cores, and the seconds and their ratio say little. How many workers were busy on
average says more then, because a worker is busy with a task even while another program has its core.
"""

from __future__ import annotations

import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, redirect_stdout
from functools import partial
from importlib import import_module
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pymc as pm

import pmgp
from case_studies.latent_operators import study
from case_studies.tools.scale import Scale
from case_studies.tools.spread import spread
from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.sampling.chains import chain_folder, seconds_spent

__all__ = ["constants", "product", "rows"]

CHAINS, TUNE, DRAWS, POINTS = 16, 200, 300, 200
CELLS = 200
SCALE = Scale("cluster", seed=1, chains=2, tune=100, draws=500, checkpoints=(250, 500), datasets=8)
WEIGHED, ROWS = 160, 1500
ENTRIES, COLUMNS, INPUTS, BLOCK = (4000, 8000), 8, 8, 500
MESSAGE = 16_000_000
"""Bytes of an array that travels to a worker and back."""
IMPORTED = ("pmgp.interface.sampling", "pmgp.interface.steps", "case_studies.latent_operators.study")


class Watched(Executor):
    """An executor that remembers the futures that it gave."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner
        self.futures: list[Future[Any]] = []

    def submit(self, function: Any, /, *arguments: Any, **others: Any) -> Future[Any]:
        """Pass a call on."""
        self.futures.append(self._inner.submit(function, *arguments, **others))
        return self.futures[-1]

    @property
    def seconds(self) -> float:
        """Seconds that workers spent in all calls together."""
        return sum(future.result().seconds for future in self.futures)


class Timed(NamedTuple):
    """The seconds of some work by the clock, those that its workers were busy, and those of the work alone."""

    elapsed: float
    busy: float
    own: float


def started() -> float:
    """Import what workers need; the seconds of the first call in a process are those of its start."""
    begun = time.perf_counter()
    for name in IMPORTED:
        import_module(name)
    return time.perf_counter() - begun


@contextmanager
def workers(number: int) -> Iterator[Watched]:
    """Processes that have imported what they need."""
    with ProcessPoolExecutor(number, mp_context=get_context("spawn"), initializer=started) as pool:
        # Each call keeps its process busy, so that all of them start.
        list(pool.map(time.sleep, [1.0] * number))
        yield Watched(pool)


def classifier() -> pm.Model:
    """Return a model whose chains take some seconds."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(POINTS, 4))
    return pmgp.models.classifier(X, X.sum(axis=1) + rng.normal(size=POINTS) > 0.0)


def chains(executor: Watched) -> Timed:
    """Chains of `pmgp.sample`; their own seconds are those from one iteration to the next, as they are stored."""
    model = classifier()
    step, begun = pmgp.PseudoMarginal(model=model), time.perf_counter()
    quiet: dict[str, Any] = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with tempfile.TemporaryDirectory() as folder:
        pmgp.sample(
            model, draws=DRAWS, tune=TUNE, chains=CHAINS, cores=1, step=step, random_seed=1, executor=executor,
            out=folder, **quiet,
        )  # fmt: skip
        elapsed = time.perf_counter() - begun
        own = sum(seconds_spent(chain_folder(Path(folder), number)) for number in range(CHAINS))
    return Timed(elapsed, executor.seconds, own)


def cells(executor: Watched) -> Timed:
    """Cells of a study, whose results come back to this process."""
    chosen = list(study.cells([50], [2], range(SCALE.datasets)))[:CELLS]
    kept: dict[study.Cell, Any] = {}
    begun = time.perf_counter()
    with redirect_stdout(StringIO()):
        spread(chosen, partial(study.run_cell, SCALE), kept.__setitem__, executor)
    assert len(kept) == CELLS
    return Timed(time.perf_counter() - begun, executor.seconds, executor.seconds)


def regression() -> pm.Model:
    """Return a model whose evidence is one factorization."""
    X = np.random.default_rng(1).normal(size=(ROWS, 3))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * np.random.default_rng(2).normal(size=ROWS)
    with pm.Model() as model:
        covariance = pm.Gamma("variance", 2, 1) * pm.gp.cov.Matern52(3, pm.Gamma("lengthscale", 2, 1))
        pm.gp.Marginal(cov_func=covariance).marginal_likelihood("y", X, y, pm.HalfNormal("noise", 1))
    return model


def weights(executor: Watched) -> Timed:
    """Importance weights, without the search for the maximum, which is not shared out."""
    from pmgp.interface.importance.sampling import target_of
    from pmgp.interface.importance.weighing import weigh

    target = target_of(regression(), "auto", "ep", None, None)
    theta = np.random.default_rng(3).normal(0.0, 0.1, size=(WEIGHED, 3))
    seeds, begun = np.random.SeedSequence(1).spawn(WEIGHED), time.perf_counter()
    weigh(target, theta, seeds, executor, progressbar=False)
    return Timed(time.perf_counter() - begun, executor.seconds, executor.seconds)


WORK: dict[str, tuple[Callable[[Watched], Timed], int]] = {
    "chains": (chains, CHAINS),
    "cells": (cells, CELLS),
    "weights": (weights, WEIGHED),
}
"""Kinds of work, and how many tasks each has."""


def rows() -> Iterator[dict[str, Any]]:
    """Return a row for each kind of work: its seconds on one worker and on two."""
    warnings.simplefilter("ignore", UserWarning)
    for name, (work, number) in WORK.items():
        by_workers, load = [], os.getloadavg()[0]
        for count in (1, 2):
            with workers(count) as executor:
                by_workers.append(work(executor))
        one, two = by_workers
        yield {
            "work": name,
            "tasks": number,
            "s, one worker": one.elapsed,
            "s, two workers": two.elapsed,
            "ratio": one.elapsed / two.elapsed,
            "busy, of one worker": one.busy / one.elapsed,
            "busy, of two workers": two.busy / two.elapsed,
            "own s a task": one.own / number,
            "overhead s a task": (one.elapsed - one.own) / number,
            "of it in the worker": (one.busy - one.own) / number,
            "own s a task, two workers": two.own / number,
            "load before": load,
        }


def product(X: np.ndarray, vectors: np.ndarray, where: slice = slice(None)) -> np.ndarray:
    """Multiply rows of a squared exponential covariance by columns, block by block, so that K is never there."""
    found, squares = [], np.square(X).sum(axis=1)
    for begin in range(0, len(X[where]), BLOCK):
        block = X[where][begin : begin + BLOCK]
        distances = np.square(block).sum(axis=1)[:, None] + squares - 2.0 * block @ X.T
        found.append(np.exp(-0.5 * distances) @ vectors)
    return np.concatenate(found)


def constants() -> Iterator[dict[str, Any]]:
    """Return what a worker's start, a message, and a product with K on one core take; products by processor time."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield {"constant": "start of a worker, s", "value": _shortest(lambda: pool.submit(started).result(), 1)}
        round_trip = _shortest(lambda: pool.submit(len, b"").result(), 200)
        yield {"constant": "round trip, s", "value": round_trip}
        message = np.ones(MESSAGE // 8)
        there_and_back = _shortest(lambda: pool.submit(np.copy, message).result(), 5) - round_trip
        yield {"constant": "bytes a second between processes", "value": 2 * MESSAGE / there_and_back}
    rng = np.random.default_rng(1)
    for n in ENTRIES:
        X, vectors = rng.normal(size=(n, INPUTS)), rng.normal(size=(n, COLUMNS))
        with threads_limited(1, exactly=True):
            seconds = _shortest(partial(product, X, vectors), 10, time.process_time)
        yield {"constant": f"product with n = {n}, s", "value": seconds}


def _shortest(call: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    seconds = []
    for _ in range(repeats):
        begun = clock()
        call()
        seconds.append(clock() - begun)
    return min(seconds)
