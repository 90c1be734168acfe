"""What a chain learns while it tunes, and the number of importance samples chosen at the end."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

from pmgp.core.adaptation.mode_prediction import ModePredictor, SameStart
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.marginal.calibration import (
    CANDIDATES,
    TARGET_SPREAD,
    _pairs_adjacent,
    _spread_of_groups,
    _spread_of_repeats,
    choose_draws,
)
from pmgp.core.marginal.evaluation import Evaluator, Fitted
from pmgp.core.marginal.tuning import Tuning
from pmgp.core.transitions.base import Point, TransitionInfo
from pmgp.core.transitions.mixture import IndependenceMixture
from pmgp.core.transitions.proposals import INDEPENDENT, WALK
from tests.marginal.geweke import ToyModel

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


@pytest.mark.parametrize("approximation", [Laplace(), ExpectationPropagation()], ids=["laplace", "ep"])
def test_fits_start_from_where_the_chain_is_until_they_can_be_predicted(approximation):
    """In fewer iterations than from nothing, and to the same evidence but for what tolerances leave."""
    evaluate = Evaluator(ToyModel(LABELS), approximation)
    tuning = Tuning(IndependenceMixture(), 2, len(evaluate.start_from(evaluate(np.array([0.0, 1.2]), None))), 1000)
    rng, current = np.random.default_rng(0), tuning.density(evaluate).at(np.array([0.0, 1.2]))
    warm, cold = [], []
    for _ in range(60):
        current, _ = tuning.step(rng, current, evaluate)
        again, anew = tuning.density(evaluate).at(current.position), evaluate(current.position, None)
        np.testing.assert_allclose(again.log_density, anew.log_screen, atol=0.1)
        warm.append(again.payload.approximation.iterations)
        cold.append(anew.approximation.iterations)
    assert tuning.predictor is None
    assert np.mean(warm) < 0.8 * np.mean(cold)


def seen_while_tuning(iterations: int, see) -> list:
    """What is seen of 400 iterations of tuning after each of the first ones."""
    rng, evaluate = np.random.default_rng(0), Evaluator(ToyModel(LABELS), Laplace())
    tuning = Tuning(IndependenceMixture(), 2, 6, 400)
    current, found = tuning.density(evaluate).at(np.array([0.0, 1.2])), []
    for _ in range(iterations):
        current, _ = tuning.step(rng, current, evaluate)
        found.append(see(tuning))
    return found


def test_starts_are_predicted_early_and_from_nothing_again():
    """What the chain sees on its way to the posterior is left out of what sampling starts from."""
    predictors = seen_while_tuning(400, lambda tuning: tuning.predictor and (tuning.predictor.count, tuning.starts))
    counts = [0 if seen is None else seen[0] for seen in predictors]
    # Regressions begin after 50 and after 175 iterations, in each of which one pair at most is seen.
    assert not any(counts[:50])
    assert 0 < counts[173] <= 124
    assert counts[174] == 0
    assert 0 < counts[399] <= 225
    assert isinstance(predictors[399][1], ModePredictor)


def test_starts_are_predicted_as_before_until_they_can_be_predicted_anew():
    starts = seen_while_tuning(250, lambda tuning: (tuning.starts, tuning.predictor, tuning.former))
    former = starts[173][0]
    assert isinstance(former, ModePredictor)
    # The new regression, which begins after 175 iterations, is solved for the first time 25 later.
    for used, accumulated, kept in starts[174:199]:
        assert used is kept is former
        assert accumulated is not former
    used, accumulated, kept = starts[249]
    assert used is accumulated is not former
    assert kept is None


def test_what_was_learned_far_away_predicts_nothing():
    tuning, _, _ = tuned(length=200)
    tuning.iteration, tuning.predictor = 175, ModePredictor(2, 6, np.array([50.0, 50.0]), np.ones(2))
    tuning.predictor.coefficients = np.zeros((len(tuning.predictor.gram), 6))
    tuning._refit_predictor()
    assert tuning.former is None
    assert isinstance(tuning.starts, SameStart)


def test_where_fits_start_is_known_whenever_a_chain_is_interrupted():
    """It changes with `starts_changed` alone, after which the current theta is evaluated again."""
    rng, evaluate = np.random.default_rng(0), Evaluator(ToyModel(LABELS), Laplace())
    tuning = Tuning(IndependenceMixture(), 2, 6, 200)
    current, before = tuning.density(evaluate).at(np.array([0.0, 1.2])), known(tuning)
    for _ in range(200):
        current, _ = tuning.step(rng, current, evaluate)
        assert tuning.starts_changed or all(new is old for new, old in zip(known(tuning), before, strict=True))
        before = known(tuning)
    assert tuning.predictor is not None
    assert tuning.starts is tuning.predictor


def known(tuning: Tuning) -> tuple[np.ndarray | None, ...]:
    """What fits start from."""
    return tuning.nearby, *(None if one is None else one.coefficients for one in (tuning.predictor, tuning.former))


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


class Unusable(NamedTuple):
    """An approximation with a high evidence under a covariance that stays indefinite."""

    log_evidence: float = 50.0
    converged: bool = True

    def factorized(self):
        return DensePrior(np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]], order="F")).factorized()


class Towards:
    """A transition that is accepted wherever it goes."""

    derivatives = 0

    def __init__(self, moved: Point) -> None:
        self.moved = moved

    def start(self, dimension, length):
        return None

    def step(self, rng, point, density, learned):
        return self.moved, TransitionInfo(True, 1.0, 1)

    def learn(self, learned, point, info):
        return None


def test_where_the_covariance_has_no_factor_the_chain_does_not_go():
    """B may have one all the same; the exact chain could not start there."""
    evaluate = Evaluator(ToyModel(LABELS), Laplace())
    theta = np.array([0.0, 1.2])
    current = Point(theta, 0.0, evaluate(theta, None))
    tuning = Tuning(Towards(Point(theta + 1.0, 50.0, Fitted(theta + 1.0, 0.0, Unusable(), None))), 2, 6, 100)
    after, info = tuning.step(np.random.default_rng(0), current, evaluate)
    assert (after is current, info.accepted, info.acceptance_rate) == (True, False, 1.0)


def test_the_draws_of_the_burn_in_are_forgotten():
    """The chain starts far away, and the moments of what follows do not remember it."""

    def tuned_along(path):
        tuning = Tuning(Towards(Point(np.zeros(1), 0.0, None)), 1, 6, 50)
        for theta in path:
            tuning._learn(Point(np.array([theta]), 0.0, None), None)
        return tuning.moments

    # The draw with which the burn-in ends is the first of the others.
    assert tuned_along([100.0] * 10 + [1.0, 2.0, 3.0]).count == 4
    assert tuned_along([100.0] * 9 + [1.0, 2.0, 3.0]).mean == pytest.approx(2.0)


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


@pytest.mark.parametrize("spread", [0.3, 1.0, 1.6])
def test_the_spread_of_normal_log_weights_is_found(spread, rng):
    """A chain holds weights in proportion to themselves: those of its stored estimate are larger than fresh ones."""
    log_weights = spread * rng.standard_normal(4000)
    assert _spread_of_groups(log_weights, 1, False, rng) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan])
def test_weights_that_are_not_finite_have_an_infinite_spread(value, rng):
    log_weights = np.full(64, -np.inf)
    log_weights[3] = value
    assert _spread_of_groups(log_weights, 16, False, rng) == np.inf
    assert _spread_of_repeats(log_weights) == np.inf


def test_mirror_images_that_make_up_for_each_other_leave_no_spread(rng):
    """A particle that is held comes with its mirror image."""
    surplus = rng.uniform(-0.9, 0.9, 500)
    log_weights = np.log(np.concatenate([1.0 + surplus, 1.0 - surplus]))
    adjacent = _pairs_adjacent(log_weights, True)
    assert _spread_of_groups(adjacent, 2, True, rng) == pytest.approx(0.0, abs=1e-6)
    assert _spread_of_groups(adjacent, 2, False, rng) > 0.1
    assert _spread_of_groups(_pairs_adjacent(log_weights, False), 2, True, rng) > 0.1


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
