"""The chains behind Table I: a preliminary run, the article's pseudo-marginal chain, and pmgp's own step method.

The plain chain is pmgp's scheme with its three additions left out: proposals are not screened, the importance samples
are not antithetic, and the stored estimate is never refreshed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from case_studies.annealing.problems import Problem
from case_studies.tools.effective_size import effective_sizes
from pmgp import PseudoMarginal
from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations import Approximation, Laplace
from pmgp.core.estimators import AnnealedImportanceSampling, Estimator, ImportanceSampling
from pmgp.core.marginal import pseudo_marginal as scheme
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.tuning import Tuning
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.mixture import IndependenceMixture, LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal

__all__ = ["EVERY_MOVE", "Tuned", "default_chain", "estimator", "plain_chain", "preliminary"]

EVERY_MOVE = 10_000
"""More ellipses than any schedule has moves."""


class Step(NamedTuple):
    """Where an iteration has led to, and whether its proposal was accepted."""

    theta: np.ndarray
    accepted: bool


class Tuned(NamedTuple):
    """Results of a preliminary run, in lists that fit JSON.

    Attributes
    ----------
    log_scale : float
    location : (dimension,) list
    factor : (dimension, dimension) list
        Parameters of the proposal: a random walk with covariance ``exp(2 log_scale) factor factor'``.
    thetas : (k, dimension) list
        Different draws of the second half; the last one is where chains start.
    acceptance : float
        Rate in the last quarter, with Laplace's evidence in place of p(y|theta).
    """

    log_scale: float
    location: list
    factor: list
    thetas: list
    acceptance: float

    def learned(self) -> LearnedMixture:
        """The random walk, in the form that the transition of the chain takes."""
        location, factor = np.array(self.location), np.array(self.factor)
        return LearnedMixture.fixed(
            AdaptiveProposal(len(location), log_scale=self.log_scale, location=location, factor=factor)
        )


def preliminary(rng: np.random.Generator, problem: Problem, iterations: int) -> Tuned:
    """Tune the proposal under Laplace's evidence, from a draw of the prior.

    It is the first half of pmgp's tuning of twice the length: in the second half independent proposals would take part,
    which the article does not have. The random walk has the covariance of the draws so far, and a scale that is led to
    an acceptance rate of 25 %.
    """
    evaluate = Evaluator(problem.parts, Laplace(sweeps=0))
    theta = problem.start(rng)
    dimension, size = problem.parts.dimension, problem.parts.prior(theta).size
    tuning = Tuning(IndependenceMixture(), dimension, size, 2 * iterations)
    current = tuning.density(evaluate).at(theta)
    thetas, moved = np.empty((iterations, dimension)), np.zeros(iterations)
    for index in range(iterations):
        current, info = tuning.step(rng, current, evaluate)
        thetas[index], moved[index] = current.position, info.accepted
        if tuning.starts_changed:
            current = tuning.density(evaluate).at(current.position)
    proposal = tuning.learned.proposal
    assert proposal.location is not None
    assert proposal.factor is not None
    return Tuned(
        proposal.log_scale,
        proposal.location.tolist(),
        proposal.factor.tolist(),
        _different(thetas[iterations // 2 :]).tolist(),
        float(moved[-iterations // 4 :].mean()),
    )


def _different(thetas: np.ndarray) -> np.ndarray:
    """The points, without repetitions that follow one another."""
    changed = np.any(thetas[1:] != thetas[:-1], axis=1)
    return thetas[np.append(True, changed)]


def estimator(name: str, draws: int) -> Estimator:
    """The article's, by its abbreviation; "AIS prior" anneals from the prior. Every move has an ellipse of its own."""
    if name == "IS":
        return ImportanceSampling(draws, antithetic=False)
    return AnnealedImportanceSampling(
        "prior" if name == "AIS prior" else "approximation", draws=draws, ellipses=EVERY_MOVE
    )


def _predictor(evaluate: Evaluator, tuned: Tuned) -> ModePredictor:
    """Where approximations start: a function of theta that is fixed before the chain, which only saves iterations."""
    thetas = np.array(tuned.thetas)
    first = evaluate.start_from(evaluate(thetas[-1], None))
    predictor = ModePredictor(thetas.shape[1], len(first), thetas.mean(axis=0), thetas.std(axis=0) + 1e-3)
    wanted = min(len(thetas), 3 * len(predictor.gram))
    for theta in thetas[np.linspace(0, len(thetas) - 1, wanted).astype(int)]:
        predictor.add(theta, evaluate.start_from(evaluate(theta, None)))
    predictor.solve()
    return predictor


def plain_chain(
    rng: np.random.Generator,
    problem: Problem,
    tuned: Tuned,
    approximation: Approximation,
    estimator: Estimator,
    discarded: int,
    draws: int,
) -> dict[str, Any]:
    """Run the article's chain, whose evidence is estimated by `estimator` from `approximation`.

    Parameters
    ----------
    rng : numpy.random.Generator
    problem : Problem
    tuned : Tuned
    approximation : Approximation
    estimator : Estimator
    discarded, draws : int
        Iterations before those that count, and those.

    Returns
    -------
    dict
        For the iterations that count: ``acceptance``, ``ess`` (the smallest effective sample size over theta, on the
        log scale) and ``seconds`` of processor time.
    """
    steps = _plain_steps(rng, problem, tuned, approximation, estimator)
    return _measured(steps, discarded, draws)[1]


def _plain_steps(
    rng: np.random.Generator, problem: Problem, tuned: Tuned, approximation: Approximation, estimator: Estimator
) -> Iterator[Step]:
    evaluate = Evaluator(problem.parts, approximation)
    predictor = _predictor(evaluate, tuned)
    frozen = scheme.Frozen(tuned.learned(), predictor, int(estimator.draws))
    chain = scheme.PseudoMarginalChain(estimator, delayed_acceptance=False, refresh_every=0)
    ready = evaluate.prepare(evaluate(np.array(tuned.thetas[-1]), predictor))
    current = Point(ready.theta, ready.log_screen, ready)
    state = chain.init(rng, ready, frozen)
    while True:
        state, current, info = chain.step(rng, state, current, evaluate, frozen)
        yield Step(state.theta, info.accepted)


def default_chain(
    rng: np.random.Generator, problem: Problem, tune: int, discarded: int, draws: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Run pmgp's step method with its defaults: draws of theta, (draws, dimension), and what is measured of them."""
    return _measured(_default_steps(rng, problem, tune, discarded + draws), discarded, draws)


def _default_steps(rng: np.random.Generator, problem: Problem, tune: int, total: int) -> Iterator[Step]:
    method = PseudoMarginal(model=problem.model)
    method.setup_chain(rng, tune, total)
    point = problem.model.initial_point() | problem.parts.unravel(problem.start(rng))
    for _ in range(tune):
        point, _ = method.step(point)
    method.stop_tuning()
    while True:
        point, [stats] = method.step(point)
        yield Step(problem.parts.ravel(point), bool(stats["accepted"]))


def _measured(steps: Iterator[Step], discarded: int, draws: int) -> tuple[np.ndarray, dict[str, Any]]:
    for _ in range(discarded):
        next(steps)
    clock = time.process_time()
    kept = list(islice(steps, draws))
    seconds = time.process_time() - clock
    thetas = np.array([step.theta for step in kept])
    ess = float(effective_sizes(thetas).min())
    return thetas, {"acceptance": float(np.mean([step.accepted for step in kept])), "ess": ess, "seconds": seconds}
