"""Proposals fitted to weighted draws: no draw affects its own weight, so that the evidence stays unbiased."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import digamma, gammainc, gammaln, polygamma

from pmgp.core.importance import Refitted, SplitMixture, SplitStudent, effective_size, log_mean
from pmgp.interface.importance.targets import Weighed
from pmgp.interface.importance.trust import trust_in
from pmgp.interface.importance.weighing import Weighing

DIMENSION, FIRST, FURTHER, SHAPE = 2, 10, 30, 1.5


def log_gamma(theta: np.ndarray) -> np.ndarray:
    """Return the log-density of logs of Gamma variables."""
    return (SHAPE * theta - np.exp(theta)).sum(axis=1) - DIMENSION * gammaln(SHAPE)


def alone(center: float, variance: float) -> SplitMixture:
    """Return a mixture of one symmetric t."""
    at = np.full(DIMENSION, center)
    return SplitMixture((SplitStudent.symmetric(at, variance * np.eye(DIMENSION), 7.0),), log_gamma(at[None]))


NARROW = alone(0.4, 0.64)


class Gammas:
    """Logs of Gamma variables as a posterior, whose density is zero where the first of them is above `largest`."""

    size = 1

    def __init__(self, largest: float = np.inf) -> None:
        self._largest = largest

    def value(self, theta: np.ndarray) -> float:
        return log_gamma(theta[None])[0] if theta[0] < self._largest else -np.inf

    def density(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        return self.value(theta), SHAPE - np.exp(theta)

    climbed = density

    def weighed(self, rng: np.random.Generator, theta: np.ndarray) -> Weighed:
        return Weighed(self.value(theta), None)


class FittedToAll(Refitted):
    """The twin, adaptive multiple importance sampling: no proposal leaves out a draw that it weighs."""

    def __init__(self, first: SplitMixture, draws: np.ndarray, log_weights: np.ndarray) -> None:
        again = np.concatenate([draws, draws[:1]]), np.append(log_weights, -np.inf)
        last = Refitted(first, *again)
        self.first, self.size = first, len(draws)
        for name in ("_shares", "_centers", "_factors"):
            setattr(self, name, np.repeat(getattr(last, name)[-1:], self.size, axis=0))


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


POOR = alone(0.5, 0.16)


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
    assert_allclose(more.mean(axis=0), NARROW.components[0].center, atol=0.1)


def test_with_several_maxima_all_components_are_fitted_to_their_own_draws():
    """Each component of the second proposal has the mean, the covariance and the share of its part of the draws."""
    students = [SplitStudent.symmetric(np.full(DIMENSION, at), np.eye(DIMENSION), 7.0) for at in (-20.0, 20.0)]
    first, rng = SplitMixture(tuple(students), np.log([0.5, 0.5])), np.random.default_rng(1)
    # A quarter of the draws are from normal distributions on the left, and the others from those on the right.
    right = rng.random(4000) < 0.75
    centers, deviations = np.where(right, 21.0, -19.0), np.where(right, 0.5, 1.0)
    draws = centers[:, None] + deviations[:, None] * rng.normal(size=(4000, DIMENSION))
    fitted = Refitted(first, draws[:400], np.zeros(400))
    more, left_out = fitted.sample(rng, 20_000)
    sides = more[:, 0] > 0.0
    assert abs(sides.mean() - right[:400].mean()) < 0.02
    for side, center, variance in ((sides, 21.0, 0.25), (~sides, -19.0, 1.0)):
        assert_allclose(more[side].mean(axis=0), center, atol=0.5)
        # A t with seven degrees of freedom has 7 / 5 times its scale, which is wider than the covariance.
        assert_allclose(more[side].var(axis=0), 1.4 * 1.2 * variance, rtol=0.3)
    # The mean ratio of another density to this one is one, if the draws are from this one.
    theta = np.concatenate([first.sample(rng, 400), more[:400]])
    drawn_from = fitted.log_density(theta, np.concatenate([np.arange(400), left_out[:400]]))
    ratios = np.exp(first.log_density(theta) - drawn_from)
    assert abs(ratios.mean() - 1.0) < 4.0 * ratios.std() / np.sqrt(800) < 0.2


def test_a_component_whose_draws_have_no_weight_stays_where_it_is():
    students = [SplitStudent.symmetric(np.full(DIMENSION, at), np.eye(DIMENSION), 7.0) for at in (-20.0, 20.0)]
    first, rng = SplitMixture(tuple(students), np.log([0.5, 0.5])), np.random.default_rng(1)
    draws = first.sample(rng, 200)
    fitted = Refitted(first, draws, np.where(draws[:, 0] > 0.0, -np.inf, 0.0))
    more, _ = fitted.sample(rng, 4000)
    right = more[:, 0] > 0.0
    assert 0.0 < right.mean() < 0.02
    assert_allclose(more[right].mean(axis=0), 20.0, atol=1.5)


def test_proposals_with_different_numbers_of_components_are_densities():
    """Only the proposals that are fitted to the heaviest draw have a second component."""
    students = [SplitStudent.symmetric(np.array([at]), np.eye(1), 7.0) for at in (0.0, 20.0)]
    one, two = SplitMixture(tuple(students[:1]), np.zeros(1)), SplitMixture(tuple(students), np.log([0.5, 0.5]))
    draws, log_weights = np.random.default_rng(1).normal(size=(20, 1)), np.linspace(0.0, 1.0, 20)
    fitted = Refitted(one, draws, log_weights, lambda theta: two if theta[0] == draws[-1, 0] else one)
    assert fitted.components == 2
    grid = np.linspace(-200.0, 220.0, 20_001)[:, None]
    for left_out, far in ((0, True), (19, False)):
        density = np.exp(fitted.log_density(grid, np.full(len(grid), left_out)))
        assert_allclose(density.sum() * 0.021, 1.0, atol=1e-3)
        assert (density[grid[:, 0] > 15.0].sum() * 0.021 > 0.02) == far
        more, chosen = fitted.sample(np.random.default_rng(2), 4000)
        assert ((more[chosen == left_out] > 15.0).mean() > 0.01) == far
