"""Invariance and PyMC's contract with kernels and without: what other modules test at length, with those a run has."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.estimators.importance import WeightedParticles
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from tests.kernels.test_chains import TUNE, draws_of
from tests.marginal.geweke import largest_change, learned

# As in tests/marginal: the largest of ten z-scores exceeds 4 once in 1,600 correct runs.
BOUND = 4.0
REPLICATES = 1150
APPROXIMATIONS = {"ep": ExpectationPropagation(), "laplace": Laplace(sweeps=0)}


@pytest.fixture(scope="module")
def step(probit_model):
    return pmgp.PseudoMarginal(model=probit_model)


def change(approximation: str) -> float:
    scheme = PseudoMarginalChain(ImportanceSampling(2))
    return largest_change(scheme, Frozen(learned(), None, 2), APPROXIMATIONS[approximation], REPLICATES)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_the_joint_distribution_is_kept(approximation):
    assert change(approximation) < BOUND


def test_a_particle_picked_without_its_weight_is_rejected(monkeypatch):
    """The broken twin."""

    def uniformly(self, rng):
        return self.particles[rng.integers(len(self.particles))]

    monkeypatch.setattr(WeightedParticles, "choose", uniformly)
    assert change("laplace") > BOUND


def test_a_seed_gives_the_same_draws_again(step, probit_model):
    first, _ = draws_of(step, probit_model)
    assert_array_equal(first, draws_of(step, probit_model)[0])


def test_a_restored_state_and_a_pickle_repeat_the_next_draws(step, probit_model):
    step.setup_chain(np.random.default_rng(1), TUNE, 20)
    point = probit_model.initial_point()
    for _ in range(TUNE):
        point, _ = step.step(point)
    step.stop_tuning()
    state, twin = step.sampling_state, cloudpickle.loads(cloudpickle.dumps(step))
    expected = following(step, point)
    step.sampling_state = state
    assert_array_equal(following(step, point), expected)
    assert_array_equal(following(twin, point), expected)


def following(step, point):
    drawn = []
    for _ in range(10):
        point, _ = step.step(point)
        drawn.append(np.concatenate([np.ravel(value) for value in point.values()]))
    return np.array(drawn)
