"""E[p^] = p: the estimate of the marginal likelihood is unbiased, and its particles are exact draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.estimators.importance import WeightedParticles
from pmgp.core.gaussians import DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit
from tests.kernels.references import by_numpy
from tests.truths import low_rank_problem, standard_errors_from


def estimates(problem, estimator: ImportanceSampling, repetitions: int, seed: int = 1) -> np.ndarray:
    """p^ / p over independent repetitions."""
    prior, y, truth = problem
    likelihood = BernoulliProbit(y)
    approximation = Laplace().fit(prior, likelihood)
    rng = np.random.default_rng(seed)
    logs = [estimator.estimate(rng, approximation, likelihood).log_evidence for _ in range(repetitions)]
    return np.exp(np.array(logs) - truth)


@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("draws", [1, 2, 64])
def test_estimate_is_unbiased(n, draws):
    ratios = estimates(low_rank_problem(n), ImportanceSampling(draws), 2000)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.05


@pytest.mark.parametrize("n", [50, 200])
def test_without_antithetic_pairs_the_estimate_is_unbiased_too(n):
    ratios = estimates(low_rank_problem(n), ImportanceSampling(16, antithetic=False), 2000)
    assert standard_errors_from(ratios, 1.0) < 4.0


def test_broken_twin_is_rejected(monkeypatch):
    """A sign lost in the site ratio shifts the mean of the estimates far beyond the bound above."""

    def broken(self, likelihood, f):
        return likelihood.log_likelihood(f) - f @ self.linear + 0.49 * np.square(f) @ self.precision

    monkeypatch.setattr(SiteApproximation, "log_ratio", broken)
    # A kernel weighs draws by itself.
    with by_numpy():
        ratios = estimates(low_rank_problem(50), ImportanceSampling(64), 2000)
    assert standard_errors_from(ratios, 1.0) > 10.0


def test_antithetic_pairs_reduce_the_spread():
    problem = low_rank_problem(50)
    paired = np.log(estimates(problem, ImportanceSampling(16), 500)).std()
    independent = np.log(estimates(problem, ImportanceSampling(16, antithetic=False), 500)).std()
    assert paired < 0.6 * independent


def one_site_posterior() -> tuple[BernoulliProbit, SiteApproximation, float, float]:
    """One label and a wide prior: a skewed posterior, with its mean and variance by fine summation."""
    likelihood = BernoulliProbit(np.array([1]))
    approximation = Laplace().fit(DensePrior(np.array([-0.5]), np.array([[4.0]], order="F")), likelihood)
    grid = np.linspace(-15.0, 15.0, 60_001)
    density = np.exp(log_ndtr(grid) - 0.125 * (grid + 0.5) ** 2)
    density /= density.sum()
    mean = float(grid @ density)
    return likelihood, approximation, mean, float((grid - mean) ** 2 @ density)


def test_chosen_particle_approaches_the_posterior():
    likelihood, approximation, mean, variance = one_site_posterior()
    rng = np.random.default_rng(3)
    estimator = ImportanceSampling(512)
    picked = np.array([estimator.estimate(rng, approximation, likelihood).choose(rng)[0] for _ in range(4000)])
    assert standard_errors_from(picked, mean) < 4.0
    assert standard_errors_from((picked - mean) ** 2, variance) < 4.0


@pytest.mark.parametrize("weights", [[1.0], [0.2, 0.0, 0.5, 0.3], [0.0, 0.0, 1.0], [0.0, 0.0], [0.1] * 10])
def test_a_particle_is_chosen_by_inversion(weights):
    """As by looking through all sums; of a last one below one, the last particle."""
    particles, sums = np.arange(len(weights))[:, None], np.cumsum(weights)
    estimate = WeightedParticles.of(0.0, particles, np.zeros(len(weights)), np.array(weights))
    for seed in range(200):
        number = np.random.default_rng(seed).random()
        expected = min(int((sums <= number).sum()), len(weights) - 1)
        assert estimate.choose(np.random.default_rng(seed)) == expected


def chain_of_conditional_estimates(estimator: ImportanceSampling, steps: int) -> np.ndarray:
    likelihood, approximation, _, _ = one_site_posterior()
    rng = np.random.default_rng(4)
    f = approximation.sample(rng, 1)[0]
    path = np.empty(steps)
    for index in range(steps):
        f = estimator.estimate_given(rng, approximation, likelihood, f).choose(rng)
        path[index] = f[0]
    return path


@pytest.mark.parametrize("estimator", [ImportanceSampling(4), ImportanceSampling(3, antithetic=False)])
def test_conditional_estimates_leave_the_posterior_invariant(estimator):
    """Few draws, so that an error of the size of one particle in four would show."""
    _, _, mean, variance = one_site_posterior()
    batches = chain_of_conditional_estimates(estimator, 40_000).reshape(200, 200)
    assert standard_errors_from(batches.mean(axis=1), mean) < 4.0
    assert standard_errors_from(((batches - mean) ** 2).mean(axis=1), variance) < 4.0


def test_conditional_estimate_without_the_retained_particle_is_rejected():
    """The broken twin: fresh particles only, which is biased towards q."""

    class Forgetful(ImportanceSampling):
        def estimate_given(self, rng, approximation, likelihood, retained, draws=None):
            return self.estimate(rng, approximation, likelihood, draws)

    _, _, mean, _ = one_site_posterior()
    batches = chain_of_conditional_estimates(Forgetful(2), 40_000).reshape(200, 200)
    assert standard_errors_from(batches.mean(axis=1), mean) > 4.0


@pytest.mark.parametrize("draws", [0, -3, 2.5, True, "many"])
def test_number_of_draws_must_be_positive(draws):
    with pytest.raises(ValueError, match=str(draws)):
        ImportanceSampling(draws)


def test_antithetic_draws_must_be_even():
    with pytest.raises(ValueError, match="draws=7 is odd"):
        ImportanceSampling(7)
    assert ImportanceSampling(7, antithetic=False).draws == 7


@pytest.mark.parametrize(
    "estimator", [ImportanceSampling(1), ImportanceSampling(6), ImportanceSampling(5, antithetic=False)]
)
def test_a_conditional_estimate_has_as_many_particles_as_a_fresh_one(estimator, rng):
    """Another number would be another extended target."""
    likelihood, approximation, _, _ = one_site_posterior()
    retained = approximation.sample(rng, 1)[0]
    for estimate in (
        estimator.estimate(rng, approximation, likelihood),
        estimator.estimate_given(rng, approximation, likelihood, retained),
    ):
        assert len(estimate.particles) == len(estimate.log_weights) == estimator.draws
