"""Several classes: a process for each and a softmax, by the pseudo-marginal chain, PyMC's NUTS and nutpie.

As in `peers`, each tool has a budget of seconds and one core. The kernel is squared exponential with one length-scale
and one variance for all classes, and NUTS samples the whitened model. With several sources each class weights linear
kernels of them, and the model is whitened additively. A second table shows how estimates of log p(y|theta) spread, on
which the chain depends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pymc as pm
from threadpoolctl import threadpool_limits

import pmgp
from benchmarks import peers
from benchmarks.problems import CLASSES, Problem, load
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.datasets import DatasetError
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.taking_apart import take_apart

__all__ = ["PROBLEMS", "TOOLS", "rows", "spread", "spread_rows"]

PROBLEMS = CLASSES
TOOLS = ("pmgp", "NUTS", "nutpie")
# Importance samples of an estimate, estimates at a point, points of the posterior; and iterations of the chain that
# finds these, of which one in as many as there are points is taken.
DRAWS, REPEATS, POINTS, TUNE = 64, 50, 10, 100


def rows(
    names: Collection[str], budget: float, without_nuts: bool = False, known: Collection[tuple[str, str]] = ()
) -> Iterator[dict[str, Any]]:
    """A row for every problem and tool that is not known yet."""
    tools = [tool for tool in TOOLS if not (without_nuts and tool in peers.NUTS)]
    return peers.rows(names, tools, budget, known)


def spread_rows(names: Collection[str]) -> Iterator[dict[str, Any]]:
    """A row for every problem, without figures where its data cannot be had."""
    for name in names:
        try:
            problem = load(name)
        except DatasetError:
            yield _spread_row(Problem(name, np.zeros((0, 0)), np.zeros(0, dtype=int), ""), [np.nan])
            continue
        with threadpool_limits(limits=1):
            yield spread(problem)


def spread(problem: Problem, tune: int = TUNE, points: int = POINTS, repeats: int = REPEATS) -> dict[str, Any]:
    """Standard deviation of log-estimates from q of expectation propagation: the median over points of a short chain.

    Returns
    -------
    dict
        With the smallest and the largest as well.
    """
    model = problem.model()
    parts, rng = take_apart(model), np.random.default_rng(2)
    evaluate, estimator = Evaluator(parts, ExpectationPropagation()), ImportanceSampling(DRAWS)

    def deviation(theta: np.ndarray) -> float:
        ready = evaluate.prepare(evaluate(theta, None))
        logs = [estimator.estimate(rng, ready.approximation, ready.likelihood).log_evidence for _ in range(repeats)]
        return float(np.std(logs, ddof=1))

    return _spread_row(problem, [deviation(theta) for theta in _posterior_points(model, parts, tune, points)])


def _spread_row(problem: Problem, found: list[float]) -> dict[str, Any]:
    given = {"data": problem.name, "n": len(problem.y), "points": len(found), "draws": DRAWS}
    return given | {"spread": float(np.median(found)), "smallest": min(found), "largest": max(found)}


def _posterior_points(model: pm.Model, parts: LatentGaussianModel, tune: int, points: int) -> Iterator[np.ndarray]:
    """Theta of every so many iterations of a chain, after tuning."""
    step, point = pmgp.PseudoMarginal(model=model), model.initial_point()
    step.setup_chain(np.random.default_rng(1), tune, points**2)
    for iteration in range(tune + points**2):
        if iteration == tune:
            step.stop_tuning()
        point, _ = step.step(point)
        if iteration >= tune and (iteration - tune) % points == 0:
            yield parts.ravel(point)
