"""One iteration of the pseudo-marginal chain with parts whose values are known: probabilities, and who gets what."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pmgp.core.marginal.evaluation import Fitted, Ready
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.transitions.base import Point
from pmgp.core.transitions.metropolis_hastings import Proposed, metropolis_hastings

N, HERE, THERE = 3, np.array([0.1]), np.array([0.7])


class Known(NamedTuple):
    """An approximation whose draws are its rows' numbers."""

    log_evidence: float
    iterations: int = 4
    converged: bool = True

    @staticmethod
    def sample_deviations(rng, size):
        return np.repeat(np.arange(size, dtype=float)[:, None], N, axis=1)


class Estimated(NamedTuple):
    log_evidence: float
    particle: np.ndarray
    effective_size: float = 5.0

    def choose(self, rng):
        return self.particle


class Estimating:
    """An estimator that remembers what it is given, and shares draws."""

    def __init__(self, log_evidence: float) -> None:
        self.log_evidence = log_evidence
        self.given: dict[str, Any] = {}

    def estimate(self, rng, approximation, likelihood, draws=None):
        return Estimated(self.log_evidence, np.full(N, 9.0))

    def estimate_given(self, rng, approximation, likelihood, retained, draws=None):
        self.given = {"retained": retained, "draws": draws}
        return Estimated(self.log_evidence, np.full(N, 8.0))


class Sharing(Estimating):
    def redrawn(self, draws):
        return draws - 1

    def estimate_from(self, approximation, likelihood, retained, deviations):
        self.given = {"retained": retained, "deviations": deviations}
        return Estimated(self.log_evidence, np.full(N, 7.0))


class Proposing(NamedTuple):
    """A transition that knows one proposal."""

    log_hastings: float
    derivatives: int = 0

    def propose(self, rng, position, learned):
        return Proposed(THERE, self.log_hastings)

    def step(self, rng, point, density, learned):
        return metropolis_hastings(rng, point, density, self.propose(rng, point.position, learned))

    def start(self, dimension, length):
        return None

    def learn(self, learned, point, info):
        return None

    def freeze(self, learned):
        return None


class Evaluating(NamedTuple):
    """The candidate: log p(theta') = -1, the approximation's evidence -1.5 when fitted, and another one when ready."""

    log_evidence: float = -1.5

    def __call__(self, theta, predictor):
        return Fitted(theta, -1.0, Known(self.log_evidence), None)

    def prepare(self, fitted):
        return Ready(fitted.theta, fitted.log_prior, fitted.log_screen, Known(-77.0), None)


READY = Ready(HERE, -0.6, -3.1, Known(-2.5), None)
CURRENT = Point(HERE, READY.log_screen, READY)
STATE = State(HERE, np.zeros(N), -2.2, 5.0, 11)


def step(estimator: Estimating, seed: int = 0, log_hastings: float = 0.3, draws: int = 4, **settings):
    chain = PseudoMarginalChain(estimator, Proposing(log_hastings), **settings)
    frozen = Frozen(None, None, draws)
    return chain.step(np.random.default_rng(seed), STATE, CURRENT, Evaluating(), frozen)


@pytest.mark.parametrize("log_evidence", [-2.6, -1.2])
@pytest.mark.parametrize("delayed", [True, False])
def test_the_probability_of_acceptance(log_evidence, delayed):
    """With delayed acceptance the second stage corrects the screen; without, it is the only one."""
    _, _, info = step(
        Estimating(log_evidence), log_hastings=-0.4, delayed_acceptance=delayed, latent_moves=0, refresh_every=0
    )
    exact = (-1.0 + log_evidence) - (-0.6 - 2.2)
    screen = (-1.0 - 1.5) - -3.1
    expected = exact - screen if delayed else exact - 0.4
    assert info.acceptance_rate == pytest.approx(min(1.0, np.exp(expected)))


def test_what_fails_the_first_stage_is_not_estimated():
    """With so small a ratio of the proposal's densities that nothing passes."""
    _, current, info = step(Estimating(0.0), log_hastings=-1e3, latent_moves=0, refresh_every=0)
    assert info.acceptance_rate == 0.0
    assert current is CURRENT


def test_an_accepted_state_has_the_estimate_and_the_particle():
    state, current, info = step(Estimating(5.0), latent_moves=0, refresh_every=0)
    assert info.accepted
    assert_array_equal(current.position, THERE)
    assert (current.log_density, current.payload.log_screen) == (-2.5, -2.5)
    assert (state.log_estimate, state.effective_size, state.iteration) == (5.0, 5.0, 12)
    assert_array_equal(state.particle, np.full(N, 9.0))


@pytest.fixture
def moved(monkeypatch):
    """The trace's copy is moved to ones; the auxiliaries that it was given."""
    given: list[Any] = []

    def move(self, rng, state, current, auxiliaries=None):
        given.append(auxiliaries)
        return np.ones(N)

    monkeypatch.setattr(PseudoMarginalChain, "_move_latent", move)
    return given


def test_shared_draws_serve_the_moves_first_and_then_the_refreshment(moved):
    estimator = Sharing(-1e9)
    state, _, info = step(estimator, latent_moves=2)
    assert_array_equal(moved[0][:, 0], [0.0, 1.0])
    assert_array_equal(estimator.given["deviations"][:, 0], [2.0, 3.0, 4.0])
    assert_array_equal(estimator.given["retained"], info.latent)
    assert_array_equal(state.particle, np.full(N, 7.0))


def test_a_refreshment_without_shared_draws_is_given_the_moved_copy(moved):
    estimator = Estimating(-1e9)
    state, _, info = step(estimator, refresh_every=1)
    assert moved == [None]
    assert_array_equal(estimator.given["retained"], info.latent)
    assert_array_equal(info.latent, np.ones(N))
    assert estimator.given["draws"] == 4
    assert_array_equal(state.particle, np.full(N, 8.0))


@pytest.mark.parametrize(("every", "due"), [(0, False), (5, False), (6, True), (None, False)])
def test_refreshments_come_when_they_are_due(moved, every, due):
    """The iteration is the twelfth; an estimator that shares no draws refreshes in every tenth by itself."""
    estimator = Estimating(-1e9)
    step(estimator, refresh_every=every)
    assert bool(estimator.given) == due
