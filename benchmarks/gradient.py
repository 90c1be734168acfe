"""The price of a gradient: an approximation's log-evidence with its gradient in theta, over the fit alone.

A chain's trajectories fit loosely from a predicted start, which leaves a sweep or two; a marginalized model fits
tightly from nothing. What the gradient adds is the inverse of B, O(n^2) terms in its elements, and the pullback
through K.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.iteration import lapack_seconds
from benchmarks.problems import Problem, load
from pmgp.core import approximations
from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations import TIGHT
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.interface.model.taking_apart import take_apart

__all__ = ["PROBLEMS", "measure", "rows"]

PROBLEMS = tuple(f"synthetic-{n}{kind}" for n in (100, 400, 700) for kind in ("", "-d10-ard"))
STARTS = ("predicted", "nothing")
# Theta is drawn around the one that the synthetic data were drawn with; fits and gradients take turns.
SPREAD = 0.1
POINTS = 10
BLOCKS = 7


def rows(names: Collection[str]) -> Iterator[dict[str, Any]]:
    """A row for every problem, approximation and start."""
    for name in names:
        for approximation in ("ep", "laplace"):
            for start in STARTS:
                yield measure(load(name), approximation, start)


def measure(problem: Problem, approximation: str, start: str) -> dict[str, Any]:
    """Time the parts at several theta, in turns, in this process with one BLAS thread.

    Parameters
    ----------
    problem : Problem
    approximation : "ep" or "laplace"
    start : {"predicted", "nothing"}
        Of fits with a chain's tolerance, or with the tight one of a marginalized model.

    Returns
    -------
    dict
        Milliseconds of processor time, medians over blocks: of the ``fit``, of the fit ``with gradient``, of the
        ``inverse`` of B and the ``pullback`` through K alone, and of one dpotrf; ``ratio`` is the second over the
        first, and ``sweeps`` are those of a fit, or Newton steps.
    """
    with threadpool_limits(limits=1):
        parts = take_apart(problem.model())
        parts.compile_theta_gradient()
        method = approximations.NAMES[approximation]() if start == "predicted" else TIGHT[approximation]()
        evaluator = Evaluator(parts, method)
        thetas = _drawn(np.random.default_rng(1), problem, parts.dimension, POINTS)
        predictor = _predictor(evaluator, problem) if start == "predicted" else None
        density = ScreenDensity(evaluator, predictor)
        fits = [evaluator(theta, predictor).approximation for theta in thetas]
        mean_bar = np.zeros(fits[0].size)
        bar = fits[0].covariance_bar(mean_bar)[0]
        seconds = _timed(
            len(thetas),
            lambda k: density.at(thetas[k]),
            lambda k: density.at(thetas[k], gradient=True),
            lambda k: fits[k].covariance_bar(mean_bar),
            lambda k: parts.covariance_pullback(thetas[k], bar, mean_bar),
        )
        unit, _ = lapack_seconds(len(problem.y))
    fit, both, inverse, pullback = (1e3 * seconds).tolist()
    return {
        "data": problem.name,
        "n": len(problem.y),
        "q": approximation,
        "start": start,
        "sweeps": float(np.mean([q.iterations for q in fits])),
        "fit ms": fit,
        "with gradient ms": both,
        "ratio": both / fit,
        "inverse ms": inverse,
        "pullback ms": pullback,
        "dpotrf ms": 1e3 * unit,
    }


def _timed(number: int, *calls: Callable[[int], Any]) -> np.ndarray:
    """Seconds of each of some calls with 0, 1, ... number - 1: medians over blocks, of which the first warms up."""
    blocks = np.empty((BLOCKS, len(calls)))
    for block in blocks:
        for place, call in enumerate(calls):
            start = process_time()
            for k in range(number):
                call(k)
            block[place] = (process_time() - start) / number
    return np.median(blocks[1:], axis=0)


def _drawn(rng: np.random.Generator, problem: Problem, dimension: int, number: int) -> np.ndarray:
    """Theta near the one that the data were drawn with: (number, dimension)."""
    return rng.normal(_center(problem, dimension), SPREAD, (number, dimension))


def _center(problem: Problem, dimension: int) -> np.ndarray:
    lengthscale = 0.35 * np.sqrt(problem.X.shape[1] / 2.0)
    return np.append(np.full(dimension - 1, np.log(lengthscale)), 2.0)


def _predictor(evaluator: Evaluator, problem: Problem) -> ModePredictor:
    """Return a predictor of starts, learned from enough fits around there."""
    dimension = evaluator.model.dimension
    center = _center(problem, dimension)
    size = len(evaluator.start_from(evaluator(center, None)))
    predictor = ModePredictor(dimension, size, center, np.full(dimension, SPREAD))
    for theta in _drawn(np.random.default_rng(2), problem, dimension, 2 * len(predictor.gram) + POINTS):
        predictor.add(theta, evaluator.start_from(evaluator(theta, None)))
    predictor.solve()
    return predictor
