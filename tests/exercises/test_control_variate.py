"""The estimator of the second exercise: unbiased, positive, of a smaller variance, its draws of f exact."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import Estimator, ImportanceSampling
from pmgp.core.estimators.base import Calibrated, SharesDraws
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from tests.confirmation import confirmed
from tests.exercises.loading import exercise
from tests.test_open_interfaces import distance, sampled
from tests.truths import low_rank_problem, posterior_by_summation, standard_errors_from

controlled = exercise("control_variate")


class FittedToTheDraws(controlled.ControlVariate):
    """The broken twin: the coefficient by regression of the weights on the control variate, over the same draws."""

    def estimate(self, rng, approximation, likelihood, draws=None):
        estimate = super().estimate(rng, approximation, likelihood, draws)
        deviations = estimate.u - estimate.u.mean()
        weights = np.exp(estimate.u)
        coefficient = deviations @ weights / (deviations @ deviations)
        correction = np.mean(weights - coefficient * estimate.u) / estimate.values.mean()
        estimate.log_evidence += float(np.log(correction))
        return estimate


def ratios(estimator: Estimator, problem, approximation, repetitions: int, seed: int = 1) -> np.ndarray:
    """p^ / p over independent repetitions."""
    prior, y, truth = problem
    likelihood = BernoulliProbit(y)
    q = approximation.fit(prior, likelihood)
    rng = np.random.default_rng(seed)
    logs = [estimator.estimate(rng, q, likelihood).log_evidence for _ in range(repetitions)]
    return np.exp(np.array(logs) - truth)


@pytest.mark.parametrize("approximation", [Laplace(), ExpectationPropagation()], ids=["laplace", "ep"])
@pytest.mark.parametrize(("n", "draws"), [(50, 1), (50, 16), (200, 4)])
def test_the_estimate_is_unbiased(n, draws, approximation):
    found = ratios(controlled.ControlVariate(draws), low_rank_problem(n), approximation, 1000)
    assert standard_errors_from(found, 1.0) < 4.0
    assert found.std() / np.sqrt(len(found)) < 0.05


def test_a_coefficient_fitted_to_the_same_draws_is_not():
    problem = low_rank_problem(50)
    assert standard_errors_from(ratios(FittedToTheDraws(6), problem, Laplace(), 2000), 1.0) > 8.0
    assert standard_errors_from(ratios(controlled.ControlVariate(6), problem, Laplace(), 2000), 1.0) < 4.0


@pytest.mark.parametrize("n", [50, 200])
def test_the_variance_is_an_order_of_magnitude_smaller(n):
    """Than of as many independent draws from expectation propagation's q, and no larger than of antithetic ones."""
    problem, approximation = low_rank_problem(n), ExpectationPropagation()
    found = ratios(controlled.ControlVariate(16), problem, approximation, 1000).var()
    assert found < 0.25 * ratios(ImportanceSampling(16, antithetic=False), problem, approximation, 1000).var()
    assert found < 1.1 * ratios(ImportanceSampling(16), problem, approximation, 1000).var()


def test_the_estimate_is_never_below_the_bound_that_the_control_variate_gives():
    """The mean of log w under q is a lower bound of log p(y|theta): draws can only add to it."""
    prior, y, _ = low_rank_problem(50)
    likelihood = BernoulliProbit(y)
    q = Laplace().fit(prior, likelihood)
    rng = np.random.default_rng(2)
    log_weights = q.log_weights(likelihood, q.sample(rng, 100_000))
    estimates = [controlled.ControlVariate(1).estimate(rng, q, likelihood) for _ in range(2000)]
    lowest = min(estimate.log_evidence for estimate in estimates)
    assert lowest > log_weights.mean() - 4.0 * log_weights.std() / np.sqrt(100_000)
    assert all(estimate.values.min() >= 1.0 for estimate in estimates)


# Two labels against a prior that ties them together: skewed, and far from Laplace's q.
PRIOR = DensePrior(np.array([-0.5, 0.3]), np.array([[4.0, 2.4], [2.4, 3.0]], order="F"))
LIKELIHOOD = BernoulliProbit(np.array([1, 0]))
Q = Laplace().fit(PRIOR, LIKELIHOOD)


def errors(draws: np.ndarray) -> float:
    """Largest error of means and variances of f over batches of a chain: (batches, length, 2) to standard errors."""
    _, mean, variance = posterior_by_summation(PRIOR, LIKELIHOOD, 401)
    found = [standard_errors_from(draws[..., site].mean(axis=1), mean[site]) for site in (0, 1)]
    squares = np.square(draws - mean).mean(axis=1)
    return max(*found, *(standard_errors_from(squares[:, site], variance[site]) for site in (0, 1)))


def chain(estimator: Estimator, steps: int = 20_000, seed: int = 4) -> np.ndarray:
    """Draws of f from conditional estimates, each given the draw before: (batches, length, 2)."""
    rng = np.random.default_rng(seed)
    f, path = Q.sample(rng, 1)[0], np.empty((steps, 2))
    for index in range(steps):
        f = estimator.estimate_given(rng, Q, LIKELIHOOD, f).choose(rng)
        path[index] = f
    return path.reshape(50, -1, 2)


class KeepsAlways(controlled.ControlVariate):
    """A broken twin: what is retained is always taken for one of the particles."""

    def estimate_given(self, rng, approximation, likelihood, retained, draws=None):
        fresh = approximation.sample(rng, self.draws)
        return controlled.Controlled(approximation, likelihood, np.vstack([retained, fresh[1:]]))


class ParticlesAlone(controlled.Controlled):
    """A broken twin: particles are taken in proportion to the terms of the estimate, and nothing else is."""

    def choose(self, rng):
        return self.particles[rng.choice(len(self.values), p=self.values / self.values.sum())]


def test_conditional_estimates_leave_the_posterior_invariant():
    assert confirmed(lambda seed: errors(chain(controlled.ControlVariate(6), seed=seed)), 4.0) < 4.0


def test_retaining_always_does_not():
    assert errors(chain(KeepsAlways(2), 90_000)) > 8.0


def test_choosing_particles_alone_does_not(monkeypatch):
    monkeypatch.setattr(controlled, "Controlled", ParticlesAlone)
    assert errors(chain(controlled.ControlVariate(2))) > 8.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_draws_of_the_parts(sign):
    """E[u u+] / E[u+] and E[f u+] / E[u+] under q, by very many draws of it."""
    rng = np.random.default_rng(5)
    estimate = controlled.ControlVariate(1).estimate(rng, Q, LIKELIHOOD)
    f = Q.sample(rng, 400_000)
    weights = np.maximum(sign * estimate.terms_of_u(f).sum(axis=-1), 0.0)
    expected = weights @ f / weights.sum()
    draws = np.array([estimate.draw_of_part(rng, sign) for _ in range(4000)])
    spread = np.sqrt(np.square(weights) @ np.square(f - expected)) / weights.sum()
    assert (np.abs(draws.mean(axis=0) - expected) < 4.0 * np.hypot(draws.std(axis=0) / np.sqrt(4000), spread)).all()


def test_it_is_neither_calibrated_nor_does_it_share_draws():
    assert not isinstance(controlled.ControlVariate(), Calibrated | SharesDraws)


def test_a_pseudo_marginal_chain_samples_exactly_with_it():
    assert distance(sampled(estimator=controlled.ControlVariate(4))) < 4.0
