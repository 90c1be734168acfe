"""Annealed importance sampling: E[p^] = p from both starts, exact draws, and far less spread than plain weights."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtr

from pmgp.core.approximations import Laplace
from pmgp.core.estimators import AnnealedImportanceSampling, ImportanceSampling, annealed, annealing_schedule
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.numerics.ledger import counted
from pmgp.core.transitions.parallel_slices import slices_on_ellipses
from tests.approximations.test_laplace import prior_of_a_process
from tests.estimators.test_importance import one_site_posterior
from tests.truths import low_rank_problem, posterior_by_summation, standard_errors_from

both_starts = pytest.mark.parametrize("start", ["approximation", "prior"])
FEW = (0.0, 0.01, 0.1, 0.4, 1.0)
# So far apart that weights are uneven, and a path up differs from one down.
UNEVEN = (0.0, 0.05, 1.0)
# From the prior the weights need more steps to be light-tailed enough for a test by standard errors.
MANY = tuple(np.concatenate([[0.0], np.geomspace(0.002, 1.0, 60)]))


def log_weights(prior, y, estimator: AnnealedImportanceSampling, draws: int, seed: int = 1) -> np.ndarray:
    likelihood = BernoulliProbit(y)
    q = Laplace(sweeps=0).fit(prior, likelihood)
    return estimator.estimate(np.random.default_rng(seed), q, likelihood, draws).log_weights


@both_starts
@pytest.mark.parametrize("n", [2, 3])
def test_the_estimate_is_unbiased(n, start):
    """With the article's schedule, a prior mean that is not zero, and every particle an independent estimate."""
    prior, y = prior_of_a_process(n), np.array([1, 0, 0][:n])
    truth = posterior_by_summation(prior, BernoulliProbit(y))[0]
    ratios = np.exp(log_weights(prior, y, AnnealedImportanceSampling(start), 40_000) - truth)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.02


@pytest.mark.parametrize(("start", "temperatures"), [("approximation", None), ("prior", MANY)])
def test_the_estimate_is_unbiased_in_many_dimensions(start, temperatures):
    prior, y, truth = low_rank_problem(50)
    estimator = AnnealedImportanceSampling(start, temperatures)
    ratios = np.exp(log_weights(prior, y, estimator, 4000) - truth)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.08


def ratios_with_one_ellipse(start: str) -> np.ndarray:
    """p^ / p of particles that move eight times on the plane of one auxiliary draw."""
    prior, y = prior_of_a_process(3), np.array([1, 0, 0])
    truth = posterior_by_summation(prior, BernoulliProbit(y))[0]
    estimator = AnnealedImportanceSampling(start, tuple(np.linspace(0.0, 1.0, 10)), ellipses=1)
    return np.exp(log_weights(prior, y, estimator, 40_000) - truth)


@both_starts
def test_the_estimate_is_unbiased_when_auxiliary_draws_serve_again(start):
    ratios = ratios_with_one_ellipse(start)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.02


def test_auxiliary_draws_that_serve_again_as_they_are_are_rejected(monkeypatch):
    """The broken twin: the particle leaves the plane of its auxiliary, which is then no longer independent of it."""

    def unrotated(rng, deviations, auxiliaries, *rest):
        return slices_on_ellipses(rng, deviations, auxiliaries, *rest)._replace(auxiliaries=auxiliaries)

    monkeypatch.setattr(annealed, "slices_on_ellipses", unrotated)
    assert standard_errors_from(ratios_with_one_ellipse("prior"), 1.0) > 8.0


@both_starts
def test_weights_taken_after_the_move_are_rejected(start, monkeypatch):
    """The broken twin: a particle moves at the next temperature before it collects its factor."""

    def wrong_order(rng, reference, likelihood, deviations, axes, betas):
        def log_ratio(e):
            return reference.log_ratio(likelihood, reference.mean + e)

        values, log_weights = log_ratio(deviations), 0.0
        for beta, step in zip(betas[1:], np.diff(betas), strict=True):
            auxiliaries = reference.sample_deviations(rng, len(deviations))
            deviations, _, values = slices_on_ellipses(rng, deviations, auxiliaries, log_ratio, values, beta)
            log_weights = log_weights + step * values
        return deviations, log_weights

    prior, y = prior_of_a_process(3), np.array([1, 0, 0])
    truth = posterior_by_summation(prior, BernoulliProbit(y))[0]
    monkeypatch.setattr(annealed, "_annealed", wrong_order)
    ratios = np.exp(log_weights(prior, y, AnnealedImportanceSampling(start), 40_000) - truth)
    assert standard_errors_from(ratios, 1.0) > 8.0


def rough_problem(n: int) -> tuple[DensePrior, np.ndarray]:
    """The article's synthetic data: inputs in the unit square, variance 20, length-scale 0.255."""
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(n, 2))
    squared = np.square(X[:, None] - X).sum(axis=-1)
    covariance = 20.0 * np.exp(-0.5 * squared / 0.255**2) + 1e-6 * np.eye(n)
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(n)
    return DensePrior(np.zeros(n), np.asfortranarray(covariance)), (rng.uniform(size=n) < ndtr(f)).astype(int)


def test_annealing_from_q_spreads_less_than_importance_sampling_and_from_the_prior_far_more():
    """Figure 2 of the annealing article at n = 100, with four particles an estimate and 500 estimates."""
    prior, y = rough_problem(100)
    likelihood = BernoulliProbit(y)
    q = Laplace(sweeps=0).fit(prior, likelihood)

    def spread(estimator) -> float:
        pool = estimator.estimate(np.random.default_rng(0), q, likelihood, 2000).log_weights
        return float(log_mean_exp(pool.reshape(-1, 4)).std())

    plain = spread(ImportanceSampling(antithetic=False))
    assert spread(AnnealedImportanceSampling()) < 0.8 * plain
    assert spread(AnnealedImportanceSampling("prior")) > 10.0 * plain


@both_starts
def test_chosen_particle_approaches_the_posterior(start):
    likelihood, q, mean, variance = one_site_posterior()
    rng = np.random.default_rng(3)
    estimate = AnnealedImportanceSampling(start, FEW).estimate(rng, q, likelihood, 400_000)
    groups = estimate.log_weights.reshape(-1, 100)
    weights = np.exp(groups - groups.max())
    picked = (weights * estimate.particles[:, 0].reshape(-1, 100)).sum(axis=1) / weights.sum(axis=1)
    assert standard_errors_from(picked, mean) < 4.0
    second = (weights * np.square(estimate.particles[:, 0].reshape(-1, 100) - mean)).sum(axis=1) / weights.sum(axis=1)
    assert standard_errors_from(second, variance) < 4.0


def conditional_batches(estimator: AnnealedImportanceSampling, steps: int = 6000) -> np.ndarray:
    likelihood, q, _, _ = one_site_posterior()
    rng = np.random.default_rng(4)
    f = q.sample(rng, 1)[0]
    path = np.empty(steps)
    for index in range(steps):
        f = estimator.estimate_given(rng, q, likelihood, f).choose(rng)
        path[index] = f[0]
    return path.reshape(100, -1)


@both_starts
def test_conditional_estimates_leave_the_posterior_invariant(start):
    """With weights so uneven that an error in the retained particle's would show."""
    _, _, mean, variance = one_site_posterior()
    batches = conditional_batches(AnnealedImportanceSampling(start, UNEVEN, draws=2))
    assert standard_errors_from(batches.mean(axis=1), mean) < 4.0
    assert standard_errors_from(((batches - mean) ** 2).mean(axis=1), variance) < 4.0


def test_conditional_estimates_with_one_ellipse_leave_the_posterior_invariant():
    _, _, mean, variance = one_site_posterior()
    batches = conditional_batches(AnnealedImportanceSampling("prior", FEW, draws=2, ellipses=1))
    assert standard_errors_from(batches.mean(axis=1), mean) < 4.0
    assert standard_errors_from(((batches - mean) ** 2).mean(axis=1), variance) < 4.0


def test_conditional_estimates_that_forget_the_retained_particle_are_rejected(monkeypatch):
    def forget(self, rng, approximation, likelihood, retained, draws=None):
        return self.estimate(rng, approximation, likelihood, draws)

    monkeypatch.setattr(AnnealedImportanceSampling, "estimate_given", forget)
    _, _, mean, _ = one_site_posterior()
    batches = conditional_batches(AnnealedImportanceSampling("prior", UNEVEN, draws=2))
    assert standard_errors_from(batches.mean(axis=1), mean) > 6.0


def test_a_retained_particle_whose_path_runs_the_wrong_way_is_rejected(monkeypatch):
    """The broken twin: the path back goes up the temperatures, as a fresh particle does, and makes other weights."""
    right = annealed._annealed

    def upwards(rng, reference, likelihood, deviations, axes, betas):
        return right(rng, reference, likelihood, deviations, axes, np.sort(betas))

    monkeypatch.setattr(annealed, "_annealed", upwards)
    _, _, mean, variance = one_site_posterior()
    batches = conditional_batches(AnnealedImportanceSampling("prior", UNEVEN, draws=2))
    errors = [(batches.mean(axis=1), mean), (((batches - mean) ** 2).mean(axis=1), variance)]
    assert max(standard_errors_from(*each) for each in errors) > 6.0


@pytest.mark.parametrize("n", [1, 2, 10, 100, 700, 2835])
def test_the_schedule_is_the_articles(n):
    betas = annealing_schedule(n)
    assert betas[0] == 0.0
    assert betas[1] == pytest.approx(1e-6)
    assert betas[-1] == 1.0
    assert np.all(np.diff(betas) > 0.0)
    assert np.any(np.isclose(betas, 0.2))
    assert abs(len(betas) - np.sqrt(n)) < 4.0
    for part in (betas[(betas > 0.0) & (betas < 0.21)], betas[betas > 0.19]):
        assert np.ptp(np.diff(np.log(part))) < 1e-9


@both_starts
def test_without_temperatures_in_between_particles_are_importance_samples(start, rng):
    likelihood, q, _, _ = one_site_posterior()
    estimator = AnnealedImportanceSampling(start, (0.0, 1.0), draws=3)
    estimate = estimator.estimate_given(rng, q, likelihood, q.mean)
    assert_allclose(estimate.particles[0], q.mean)
    reference = q if start == "approximation" else q.prior
    normalizer = q.log_normalizer if start == "approximation" else 0.0
    assert_allclose(estimate.log_weights, normalizer + reference.log_ratio(likelihood, estimate.particles))


def test_no_factorization_is_needed(rng):
    prior, y, _ = low_rank_problem(30)
    q = Laplace().fit(prior, BernoulliProbit(y))
    assert q.prior.factorized() is q.prior
    with counted() as counts:
        AnnealedImportanceSampling(draws=3).estimate(rng, q, BernoulliProbit(y))
    assert counts.total.cubic == (0, 0, 0)


@pytest.mark.parametrize(
    "temperatures", [(0.0, 0.5), (0.1, 1.0), (0.0, 0.5, 0.5, 1.0), (0.0, 0.7, 0.3, 1.0), (0.0, np.nan, 1.0), (1.0,)]
)
def test_temperatures_must_increase_from_zero_to_one(temperatures):
    with pytest.raises(ValueError, match="increase from 0 to 1"):
        AnnealedImportanceSampling(temperatures=temperatures)


@pytest.mark.parametrize(
    "settings", [{"start": "posterior"}, {"draws": 0}, {"draws": 2.5}, {"draws": True}, {"ellipses": 0}]
)
def test_other_settings_out_of_range_are_named(settings):
    [(name, value)] = settings.items()
    with pytest.raises(ValueError, match=f"{name} must be .*{value}"):
        AnnealedImportanceSampling(**settings)


def test_weights_that_all_vanish_give_an_estimate_of_zero(rng):
    class Vanishing(BernoulliProbit):
        def log_likelihood(self, f):
            return np.full(f.shape[:-1], -np.inf)

    prior, y, _ = low_rank_problem(5)
    q: SiteApproximation = Laplace().fit(prior, BernoulliProbit(y))
    estimate = AnnealedImportanceSampling(draws=3).estimate(rng, q, Vanishing(y))
    assert np.isneginf(estimate.log_evidence)
    assert estimate.effective_size == 0.0


def test_the_retained_path_goes_back_from_the_posterior(monkeypatch):
    """From 1 down to 0, while the fresh particles come up."""
    prior, y, _ = low_rank_problem(20)
    likelihood = BernoulliProbit(y)
    approximation = Laplace().fit(prior, likelihood)
    paths = []

    def spy(rng, reference, likelihood, deviations, axes, betas):
        paths.append((len(deviations), betas))
        return original(rng, reference, likelihood, deviations, axes, betas)

    original = annealed._annealed
    monkeypatch.setattr(annealed, "_annealed", spy)
    estimator = AnnealedImportanceSampling(draws=3)
    estimator.estimate_given(np.random.default_rng(0), approximation, likelihood, approximation.mean)
    (kept, down), (fresh, up) = paths
    assert (kept, fresh) == (1, 2)
    np.testing.assert_array_equal(up, annealing_schedule(20))
    np.testing.assert_array_equal(down, up[::-1])
