"""Proposals and trajectories by turns on the screen: Geweke's test, a broken twin, and what shares are learned from."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pmgp.core.adaptation.jump_values import JumpValues
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo
from pmgp.core.transitions.alternation import TRAJECTORY, Alternation, LearnedAlternation
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.mixture import IndependenceMixture, LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests.marginal.geweke import largest_change

# The largest of ten z-scores exceeds 4 once in 1,600 correct runs.
BOUND = 4.0
TURNS = Alternation(IndependenceMixture(), HamiltonianMonteCarlo(max_leapfrog=3))
# One Newton step: a poor screen.
HASTY = Laplace(max_iterations=1, sweeps=0)


def frozen() -> Frozen:
    """Coordinates are deliberately not those of theta, and the t is not where the prior is."""
    factor = np.array([[0.5, 0.0], [0.15, 0.7]])
    scaling = TURNS.trajectories.start(2, 0)._replace(step_size=StepSize.start(0.9), factor=factor)
    proposal = AdaptiveProposal(2, independence=0.5, log_scale=0.0, location=np.array([0.2, 0.9]), factor=factor)
    start = TURNS.start(2, 0)
    learned = start._replace(proposals=LearnedMixture.fixed(proposal), trajectories=scaling)
    return Frozen(learned, None, 2)


def score(replicates: int) -> float:
    chain = PseudoMarginalChain(ImportanceSampling(2), TURNS)
    return largest_change(chain, frozen(), HASTY, replicates)


def test_joint_distribution_is_kept():
    assert score(3000) < BOUND


def test_a_choice_by_the_state_after_tuning_is_rejected(monkeypatch):
    """Whose turn it is depends on where the chain is."""
    right = Alternation.step

    def broken(self, rng, point, density, learned):
        return right(self, rng, point, density, learned._replace(share=0.99 if point.position[1] > 0.9 else 0.01))

    monkeypatch.setattr(Alternation, "step", broken)
    assert score(2200) > 2.0 * BOUND


# What the shares are learned from


class Normal:
    """A correlated normal density of any dimension; counts what is evaluated."""

    def __init__(self, dimension: int) -> None:
        self.scale = np.linspace(0.5, 2.0, dimension)
        self.gradients = 0

    def at(self, position: np.ndarray, gradient: bool = False) -> Point:
        x = position / self.scale
        return Point(position, -0.5 * float(x @ x), "payload", self.gradient(position) if gradient else np.empty(0))

    def gradient(self, position: np.ndarray) -> np.ndarray:
        self.gradients += 1
        return -position / self.scale**2


def tuned(dimension: int, length: int = 1000, seed: int = 0) -> LearnedAlternation:
    rng, density = np.random.default_rng(seed), Normal(dimension)
    learned, point = TURNS.start(dimension, length), density.at(np.ones(dimension), gradient=True)
    for _ in range(length):
        point, info = TURNS.step(rng, point, density, learned)
        learned = TURNS.learn(learned, point, info)
    return learned


def test_the_share_follows_what_is_better():
    """Independent proposals of one element are nearly always accepted; of fifty they never are."""
    few, many = TURNS.freeze(tuned(1)), TURNS.freeze(tuned(50))
    assert few.share < 0.3
    assert many.share == pytest.approx(0.9)
    assert few.proposals.proposal.independence > 0.8


def test_both_learn_from_all_turns():
    learned = tuned(2)
    expected = np.diag(Normal(2).scale)
    assert np.abs(learned.trajectories.factor - expected).max() < 0.5
    assert np.abs(learned.proposals.proposal.factor - expected).max() < 0.5
    assert learned.trajectories.iteration == learned.proposals.iteration == 1000


def test_what_is_learned_depends_on_the_seed_alone():
    first, again, other = tuned(3, 200), tuned(3, 200), tuned(3, 200, seed=1)
    assert first.share == again.share != other.share
    assert_array_equal(first.trajectories.factor, again.trajectories.factor)


def test_what_is_frozen_stays_as_it_is():
    once = TURNS.freeze(tuned(2))
    twice = TURNS.freeze(once)
    assert (twice.share, twice.trajectories.step_size) == (once.share, once.trajectories.step_size)
    assert twice.proposals.proposal is once.proposals.proposal


def test_without_tuning_both_take_turns():
    assert TURNS.freeze(TURNS.start(2, 0)).share == 0.5


def test_a_trajectory_from_where_a_proposal_has_led_computes_the_gradient_there():
    density, learned = Normal(2), TURNS.start(2, 10)._replace(share=1.0)
    without, given = density.at(np.ones(2)), density.at(np.ones(2), gradient=True)
    moved, info = TURNS.step(np.random.default_rng(1), without, density, learned)
    same, _ = TURNS.step(np.random.default_rng(1), given, density, learned)
    assert info.component == TRAJECTORY
    assert_array_equal(moved.position, same.position)


def test_a_rejected_trajectory_gives_the_very_same_point():
    density, learned = Normal(2), TURNS.start(2, 10)
    far = learned.trajectories._replace(step_size=StepSize.start(1e3))
    point = density.at(np.ones(2))
    moved, info = TURNS.step(np.random.default_rng(1), point, density, learned._replace(share=1.0, trajectories=far))
    assert moved is point
    assert not info.accepted


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_efficiency_is_that_of_a_chain_with_this_correlation(correlation):
    rng, variance = np.random.default_rng(4), 4.0
    x, values = 2.0 * rng.standard_normal(), JumpValues.start(2)
    for _ in range(20000):
        step = correlation * x + np.sqrt(variance * (1.0 - correlation**2)) * rng.standard_normal()
        values, x = values.added(np.array([step - x, 10.0 * (step - x)]), 3.0), step
    expected = (1.0 - correlation) / (1.0 + correlation) / 3.0
    variances = np.array([variance, variance])
    assert values.efficiency(variances) == pytest.approx(expected, rel=0.05)
    together = values.weighted(0.2).joined(values.weighted(0.3))
    assert together.efficiency(variances) == pytest.approx(values.efficiency(variances))


def test_of_what_was_never_made_nothing_is_known():
    assert JumpValues.start(2).efficiency(np.ones(2)) == 0.0
