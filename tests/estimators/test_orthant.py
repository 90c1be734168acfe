"""Orthant sampling: E[p^] = p, exact draws of f, conditional estimates, and less spread than importance sampling."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling, OrthantSampling, orthant
from pmgp.core.estimators.orthant import LatentGivenNoisy
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit, Likelihood, OrdinalProbit
from tests.estimators.test_annealed import rough_problem
from tests.estimators.test_importance import estimates, one_site_posterior
from tests.truths import low_rank_problem, posterior_by_summation, standard_errors_from

EP = ExpectationPropagation()
METHODS = ("ep", "ghk", "tilted")


def process(x: list[float], variance: float = 8.0) -> DensePrior:
    """Strongly correlated values, with a mean that is not zero."""
    points = np.array(x)
    covariance = variance * np.exp(-0.5 * np.square(points[:, None] - points)) + 0.05 * np.eye(len(x))
    return DensePrior(points + 0.3, np.asfortranarray(covariance))


class Small(NamedTuple):
    """A few observations, with points enough for the sum over a grid to be exact."""

    prior: DensePrior
    likelihood: Likelihood
    points: int

    @property
    def truth(self) -> tuple[float, np.ndarray, np.ndarray]:
        return posterior_by_summation(self.prior, self.likelihood, self.points)


SMALL = {
    "probit": Small(process([-0.5, 0.1, 0.6], 20.0), BernoulliProbit(np.array([1, 0, 1])), 81),
    "ordinal": Small(
        process([0.0, 0.5]), OrdinalProbit(np.array([2, 0]), np.array([-0.5, 0.4]), np.array([0.3, 0.5])), 801
    ),
    "narrow categories": Small(
        process([0.0, 0.5]), OrdinalProbit(np.array([1, 2]), np.array([-0.05, 0.05]), 0.1), 1201
    ),
}


@pytest.mark.parametrize(("draws", "method"), [(1, "ep"), (2, "ep"), (64, "ep"), (64, "ghk"), (16, "tilted")])
def test_estimate_is_unbiased(draws, method):
    ratios = estimates(low_rank_problem(50), OrthantSampling(draws, method), 300)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.05


def small_estimate(name: str, estimator: OrthantSampling, draws: int, approximation: Approximation = EP):
    """One estimate with many draws."""
    q = approximation.fit(SMALL[name].prior, SMALL[name].likelihood)
    return estimator.estimate(np.random.default_rng(1), q, SMALL[name].likelihood, draws)


def ratios_of_pairs(log_weights: np.ndarray, log_evidence: float) -> np.ndarray:
    """p^ / p of the estimates that each antithetic pair is."""
    return np.exp(log_weights - log_evidence).reshape(2, -1).mean(axis=0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SMALL)
def test_estimate_is_unbiased_whatever_the_limits(name, method):
    """With a prior mean that is not zero, every pair an independent estimate."""
    estimate = small_estimate(name, OrthantSampling(method=method), 40_000)
    ratios = ratios_of_pairs(estimate.log_weights, SMALL[name].truth[0])
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.02


def test_sites_of_any_approximation_will_do():
    estimate = small_estimate("probit", OrthantSampling(), 40_000, Laplace(sweeps=0))
    ratios = ratios_of_pairs(estimate.log_weights, SMALL["probit"].truth[0])
    assert standard_errors_from(ratios, 1.0) < 4.0


@pytest.mark.parametrize("name", SMALL)
def test_f_given_a_chosen_particle_is_from_the_posterior(name):
    """Means and variances of all elements; the estimate is made of so many draws that one of them is exact."""
    estimate, (_, mean, variance) = small_estimate(name, OrthantSampling(), 20_000), SMALL[name].truth
    rng = np.random.default_rng(2)
    picked = np.array([estimate.choose(rng) for _ in range(4000)])
    for i in range(len(mean)):
        assert standard_errors_from(picked[:, i], mean[i]) < 4.0
        assert standard_errors_from(np.square(picked[:, i] - mean[i]), variance[i]) < 4.0


def error_of_conditional_estimates(name: str, estimator: OrthantSampling, steps: int = 2500) -> float:
    """f after f, each from an estimate given the one before: the largest error of their moments, in standard errors."""
    prior, likelihood, _ = SMALL[name]
    q = Laplace().fit(prior, likelihood)
    rng = np.random.default_rng(4)
    path, f = np.empty((steps, prior.size)), prior.mean
    for index in range(steps):
        f = estimator.estimate_given(rng, q, likelihood, f).choose(rng)
        path[index] = f
    return largest_error(path.reshape(100, -1, prior.size), *SMALL[name].truth[1:])


def largest_error(batches: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """Return the largest error of the first two moments of f, in standard errors of batch means."""
    means, squares = batches.mean(axis=1), np.square(batches - mean).mean(axis=1)
    pairs = [(means, mean), (squares, variance)]
    return max(standard_errors_from(found[:, i], truth[i]) for found, truth in pairs for i in range(len(mean)))


@pytest.mark.parametrize("name", ["probit", "ordinal"])
@pytest.mark.parametrize("estimator", [OrthantSampling(2), OrthantSampling(3, "ghk", antithetic=False)])
def test_conditional_estimates_leave_the_posterior_invariant(name, estimator):
    """Few draws, so that an error of the size of one path would show."""
    assert error_of_conditional_estimates(name, estimator) < 4.0


def test_conditional_estimates_that_forget_are_rejected():
    """The broken twin: fresh draws, whatever f is kept."""

    class Forgetful(OrthantSampling):
        def estimate_given(self, rng, approximation, likelihood, retained, draws=None):
            return self.estimate(rng, approximation, likelihood, draws)

    assert error_of_conditional_estimates("probit", Forgetful(2, "ghk")) > 6.0


def test_the_noisy_value_in_place_of_f_is_rejected(monkeypatch):
    """The broken twin: v is f with noise, and lies between limits that f need not keep."""
    monkeypatch.setattr(LatentGivenNoisy, "draw", lambda self, rng, v: v)
    assert error_of_conditional_estimates("probit", OrthantSampling(2), 1000) > 6.0


@pytest.mark.parametrize("method", METHODS)
def test_the_kept_path_is_first_with_its_mirror_image(method):
    """Its weight is the one that it would have been drawn with."""
    prior, y, _ = low_rank_problem(40)
    likelihood = BernoulliProbit(y)
    q = ExpectationPropagation().fit(prior, likelihood)
    estimator = OrthantSampling(6, method)
    fresh = estimator.estimate(np.random.default_rng(3), q, likelihood)
    first = fresh.weighted.particles[0]

    def keep(self, rng, f):
        return (first - prior.mean)[self.given.order][:, None]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pmgp.core.estimators.orthant._Prepared.path_of", keep)
        kept = estimator.estimate_given(np.random.default_rng(4), q, likelihood, np.zeros(40))
    assert_allclose(kept.log_weights[[0, 3]], fresh.log_weights[[0, 3]], rtol=1e-9)
    assert_allclose(kept.weighted.particles[[0, 3]], fresh.weighted.particles[[0, 3]], atol=1e-8)


def test_particles_lie_between_the_limits():
    estimate = small_estimate("ordinal", OrthantSampling(), 100)
    lower, upper, _ = SMALL["ordinal"].likelihood.noisy_limits()
    assert ((estimate.weighted.particles >= lower - 1e-12) & (estimate.weighted.particles <= upper + 1e-12)).all()


def test_estimates_spread_less_than_half_as_much_as_those_of_importance_sampling():
    prior, y = rough_problem(100)
    likelihood = BernoulliProbit(y)
    q = ExpectationPropagation().fit(prior, likelihood)

    def spread(estimator):
        rng = np.random.default_rng(6)
        return np.std([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(300)])

    assert spread(OrthantSampling(64)) < 0.5 * spread(ImportanceSampling(64))


def test_one_observation_is_exact():
    likelihood, q, mean, variance = one_site_posterior()
    estimates_of_one = OrthantSampling(4).estimate(np.random.default_rng(1), q, likelihood)
    assert np.ptp(estimates_of_one.log_weights) < 1e-12
    rng = np.random.default_rng(2)
    picked = np.array([OrthantSampling(2).estimate(rng, q, likelihood).choose(rng)[0] for _ in range(4000)])
    assert standard_errors_from(picked, mean) < 4.0
    assert standard_errors_from(np.square(picked - mean), variance) < 4.0


def test_variances_of_a_million():
    rng = np.random.default_rng(1)
    x = rng.normal(size=30)
    covariance = 1e6 * np.exp(-0.5 * np.square(x[:, None] - x) / 0.04)
    prior = DensePrior(np.zeros(30), np.asfortranarray(covariance)).factorized()
    likelihood = BernoulliProbit((x > 0).astype(int))
    q = ExpectationPropagation().fit(prior, likelihood)
    estimate = OrthantSampling(64).estimate(rng, q, likelihood)
    assert np.isfinite(estimate.log_evidence)
    assert np.isfinite(estimate.choose(rng)).all()
    assert np.isfinite(OrthantSampling(64).estimate_given(rng, q, likelihood, estimate.choose(rng)).log_evidence)


@pytest.mark.parametrize(("smallest", "right"), [(orthant.SMALLEST_REST, True), (1e-6, False)])
def test_categories_much_narrower_than_the_noise(smallest, right, monkeypatch):
    """Sites as narrow as they are would leave the recursion no digits."""
    monkeypatch.setattr(orthant, "SMALLEST_REST", smallest)
    x, cut = np.linspace(0.0, 1.0, 20), 0.01 * np.arange(3)
    covariance = np.asfortranarray(1e6 * np.exp(-0.5 * np.square((x[:, None] - x) / 0.2)) + np.eye(20))
    shift = np.linalg.cholesky(covariance + np.eye(20)) @ np.random.default_rng(1).normal(size=20)
    prior, likelihood = DensePrior(-shift, covariance), OrdinalProbit(np.arange(20) % 2 + 1, cut, 1.0)
    q = EP.refine(EP.fit(prior, likelihood).factorized(), likelihood)
    expected = ImportanceSampling(400).estimate(np.random.default_rng(0), q, likelihood).log_evidence
    error = abs(OrthantSampling(400).estimate(np.random.default_rng(0), q, likelihood).log_evidence - expected)
    assert error < 0.05 if right else error > 1.0


def test_other_likelihoods_are_refused_in_words():
    prior, y, _ = low_rank_problem(5)
    q = Laplace().fit(prior, BernoulliLogit(y))
    with pytest.raises(ValueError, match=r'BernoulliProbit or OrdinalProbit.*estimator="importance"'):
        OrthantSampling(2).estimate(np.random.default_rng(1), q, BernoulliLogit(y))


@pytest.mark.parametrize("draws", [0, -3, 2.5, True, "many"])
def test_number_of_draws_must_be_positive(draws):
    with pytest.raises(ValueError, match=str(draws)):
        OrthantSampling(draws)


def test_antithetic_draws_must_be_even():
    with pytest.raises(ValueError, match="draws=7 is odd"):
        OrthantSampling(7)
    assert OrthantSampling(7, antithetic=False).draws == 7


@pytest.mark.parametrize("method", ["hard", "smc", "genz"])
def test_methods_that_resample_are_not_offered(method):
    with pytest.raises(ValueError, match=f"unknown method '{method}'; known are ep, ghk, tilted"):
        OrthantSampling(method=method)


def test_auto_needs_a_scheme_that_chooses():
    likelihood, q, _, _ = one_site_posterior()
    with pytest.raises(ValueError, match="needs a scheme"):
        OrthantSampling().estimate(np.random.default_rng(1), q, likelihood)
