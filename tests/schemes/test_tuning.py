"""What a chain learns while it tunes, and the number of importance samples chosen at the end."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.calibration import CANDIDATES, TARGET_SPREAD, choose_draws
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.tuning import Tuning
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.mixture import IndependenceMixture
from pmgp.core.transitions.proposals import INDEPENDENT, WALK
from tests.schemes.geweke import ToyModel

LABELS = np.array([0, 1, 1, 0, 1, 1])


def tuned(length: int = 1500, seed: int = 0) -> tuple[Tuning, np.ndarray, Evaluator]:
    rng = np.random.default_rng(seed)
    evaluate = Evaluator(ToyModel(LABELS), Laplace())
    tuning = Tuning(IndependenceMixture(), 2, 6, length)
    current = tuning.density(evaluate).at(np.array([0.0, 1.2]))
    path = np.empty((length, 2))
    for index in range(length):
        current, _ = tuning.step(rng, current, evaluate)
        path[index] = current.position
    return tuning, path, evaluate


def laplace_posterior_moments() -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of theta under Laplace's marginal likelihood, on a grid."""
    evaluate = Evaluator(ToyModel(LABELS), Laplace())
    first, second = np.linspace(-2.0, 2.0, 41), np.linspace(-1.6, 4.0, 41)
    grid = np.array([[a, b] for a in first for b in second])
    log_density = np.array([evaluate(theta, None).log_screen for theta in grid])
    weights = np.exp(log_density - log_density.max())
    weights /= weights.sum()
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


def test_tuning_learns_the_moments_of_the_approximate_posterior():
    tuning, _, _ = tuned()
    mean, deviation = laplace_posterior_moments()
    proposal = tuning.transition.freeze(tuning.learned).proposal
    np.testing.assert_allclose(proposal.location, mean, atol=0.25 * deviation.max())
    np.testing.assert_allclose(np.sqrt(np.diag(proposal.factor @ proposal.factor.T)), deviation, rtol=0.3)
    assert 0.05 <= proposal.independence <= 0.9


@pytest.mark.parametrize(
    ("dimension", "independent", "walk", "share"),
    [
        (2, 0.6, 0.25, (0.7, 0.9)),
        # What is accepted once in a hundred times is stuck in between, however slow the walk is.
        (23, 0.01, 0.25, (0.05, 0.05)),
        (23, 0.01, 0.0, (0.05, 0.05)),
        (23, 0.3, 0.25, (0.7, 0.9)),
    ],
)
def test_independent_proposals_are_made_where_they_are_accepted(dimension, independent, walk, share):
    mixture = IndependenceMixture()
    learned = mixture.start(dimension, 2)._replace(iteration=1)
    point = Point(np.zeros(dimension), 0.0, None)
    for component, rate in ((INDEPENDENT, independent), (WALK, walk)):
        learned = mixture.learn(learned, point, TransitionInfo(True, rate, 1, component=component))
    smallest, largest = share
    frozen = mixture.freeze(learned)
    assert smallest <= frozen.proposal.independence <= largest
    assert mixture.freeze(frozen) is frozen


def test_prediction_of_modes_saves_newton_steps():
    tuning, path, evaluate = tuned()
    with_start = sum(evaluate(theta, tuning.predictor).approximation.iterations for theta in path[-100:])
    without = sum(evaluate(theta, None).approximation.iterations for theta in path[-100:])
    # Even here, where the prior mean is a good start; on real data far more is saved.
    assert with_start < 0.85 * without


def test_the_start_changes_the_approximation_little():
    tuning, path, evaluate = tuned()
    for theta in path[-20:]:
        predicted = evaluate(theta, tuning.predictor).approximation.log_evidence
        assert predicted == pytest.approx(evaluate(theta, None).approximation.log_evidence, abs=0.02)


def test_number_of_draws_reaches_the_target_spread():
    tuning, _, evaluate = tuned()
    rng = np.random.default_rng(1)
    estimator = ImportanceSampling()
    draws, spread = choose_draws(rng, estimator, tuning.kept, evaluate, tuning.predictor)
    assert draws in CANDIDATES
    assert spread <= TARGET_SPREAD
    evaluation = evaluate.prepare(evaluate(tuning.kept[0], None))
    logs = [
        estimator.estimate(rng, evaluation.approximation, evaluation.likelihood, draws).log_evidence for _ in range(300)
    ]
    assert np.std(logs) < 1.5 * TARGET_SPREAD


def test_given_number_of_draws_is_kept_and_its_spread_measured():
    tuning, _, evaluate = tuned()
    draws, spread = choose_draws(np.random.default_rng(1), ImportanceSampling(2), tuning.kept, evaluate, None)
    _, smaller = choose_draws(np.random.default_rng(1), ImportanceSampling(64), tuning.kept, evaluate, None)
    assert draws == 2
    assert 0.0 < smaller < spread
