"""Proposals fitted to weighted draws: no draw affects its own weight, so that the evidence stays unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import digamma, gammainc, gammaln, polygamma

from pmgp.core.importance import Refitted, SplitStudent, effective_size, log_mean
from pmgp.interface.importance.targets import Weighed
from pmgp.interface.importance.trust import trust_in
from pmgp.interface.importance.weighing import Weighing

DIMENSION, FIRST, FURTHER, SHAPE = 2, 10, 30, 1.5
NARROW = SplitStudent.symmetric(np.full(DIMENSION, 0.4), 0.64 * np.eye(DIMENSION), 7.0)


def log_gamma(theta: np.ndarray) -> np.ndarray:
    """Return the log-density of logs of Gamma variables."""
    return (SHAPE * theta - np.exp(theta)).sum(axis=1) - DIMENSION * gammaln(SHAPE)


class Gammas:
    """Logs of Gamma variables as a posterior, whose density is zero where the first of them is above `largest`."""

    size = 1

    def __init__(self, largest: float = np.inf) -> None:
        self._largest = largest

    def value(self, theta: np.ndarray) -> float:
        return log_gamma(theta[None])[0] if theta[0] < self._largest else -np.inf

    def weighed(self, rng: np.random.Generator, theta: np.ndarray) -> Weighed:
        return Weighed(self.value(theta), None)


class FittedToAll(Refitted):
    """The twin, adaptive multiple importance sampling: no proposal leaves out a draw that it weighs."""

    def __init__(self, first: SplitStudent, draws: np.ndarray, log_weights: np.ndarray) -> None:
        again = np.concatenate([draws, draws[:1]]), np.append(log_weights, -np.inf)
        last = Refitted(first, *again)
        self.first, self.size = first, len(draws)
        self._centers = np.repeat(last._centers[-1:], self.size, axis=0)
        self._factors = np.repeat(last._factors[-1:], self.size, axis=0)


def mean_weights(proposals: type[Refitted], repetitions: int, seed: int = 1) -> np.ndarray:
    """Return means of the weights of ten draws from the first proposal, and of thirty from those that are fitted."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(repetitions):
        draws = NARROW.sample(rng, FIRST)
        fitted = proposals(NARROW, draws, log_gamma(draws) - NARROW.log_density(draws))
        more, left_out = fitted.sample(rng, FURTHER)
        theta = np.concatenate([draws, more])
        density = fitted.log_density(theta, np.concatenate([np.arange(FIRST), left_out]))
        found.append(np.exp(log_gamma(theta) - density).mean())
    return np.array(found)


def score(found: np.ndarray) -> float:
    """Return the distance of the mean from 1 in standard errors."""
    return abs(found.mean() - 1.0) / (found.std() / np.sqrt(len(found)))


def test_the_mean_of_the_weights_is_unbiased():
    assert score(mean_weights(Refitted, 1500)) < 4.0


def test_a_proposal_fitted_to_the_draws_that_it_weighs_is_rejected():
    assert score(mean_weights(FittedToAll, 500)) > 8.0


POOR = SplitStudent.symmetric(np.full(DIMENSION, 0.5), 0.16 * np.eye(DIMENSION), 7.0)


@pytest.fixture(scope="module")
def drawn() -> Weighing:
    weighing = Weighing(Gammas(), POOR, np.random.default_rng(2), None, progressbar=False)
    weighing.drawn(400)
    return weighing


def test_half_of_the_draws_are_from_a_second_proposal(drawn):
    assert drawn.theta.shape == (400, DIMENSION)
    first = POOR.fitted(Gammas().value)
    log_weights = log_gamma(drawn.theta) - first.log_density(drawn.theta)
    assert trust_in(drawn.log_weights).suffices(DIMENSION)
    assert effective_size(drawn.log_weights) > 320.0
    # Weights with the mixture are bounded by those with the first half of it.
    assert (drawn.log_weights < log_weights + np.log(2.0)).all()
    assert not np.allclose(drawn.log_weights, log_weights)


def test_they_have_the_evidence_and_the_mean(drawn):
    mean = log_mean(drawn.log_weights)
    assert abs(mean.value) < 4.0 * mean.standard_error < 0.4
    weights = np.exp(drawn.log_weights - mean.value) / len(drawn.theta)
    error = np.sqrt(polygamma(1, SHAPE) / effective_size(drawn.log_weights))
    assert_allclose(weights @ drawn.theta, digamma(SHAPE), atol=4.0 * error)


def test_the_proposal_is_fitted_once():
    weighing = Weighing(Gammas(), NARROW, np.random.default_rng(1), None, progressbar=False)
    weighing.add(40)
    weighing.refit()
    weighing.add(60)
    once = weighing.log_weights
    weighing.refit()
    assert_allclose(weighing.log_weights, once)


def test_few_draws_are_all_from_the_first_proposal():
    weighing = Weighing(Gammas(), NARROW, np.random.default_rng(1), None, progressbar=False)
    weighing.drawn(20 * DIMENSION - 1)
    assert_allclose(weighing.log_weights, log_gamma(weighing.theta) - NARROW.log_density(weighing.theta))


def test_the_mean_of_the_weights_is_unbiased_where_some_vanish():
    """Nothing is decided by weights: a proposal is fitted to however few of them do not vanish."""
    means = []
    for seed in range(500):
        weighing = Weighing(Gammas(largest=0.5), NARROW, np.random.default_rng(seed), None, progressbar=False)
        weighing.drawn(20 * DIMENSION)
        means.append(np.exp(weighing.log_weights).mean())
    assert score(np.array(means) / gammainc(SHAPE, np.exp(0.5))) < 4.0


def test_draws_without_weight_leave_the_first_proposal_in_place():
    draws = NARROW.sample(np.random.default_rng(1), FIRST)
    fitted = Refitted(NARROW, draws, np.full(FIRST, -np.inf))
    more, _ = fitted.sample(np.random.default_rng(2), 4000)
    assert_allclose(more.mean(axis=0), NARROW.center, atol=0.1)
