"""q(f) from Gaussian sites: normalizer, moments and importance weights against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from pmgp.core.gaussians import Conditioning, DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import counted


def problem(n: int, seed: int = 1):
    """A prior with a mean, and sites of unequal precision that pull to one side."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n)) + np.eye(n)
    covariance = root @ root.T + 0.3 * np.eye(n)
    mean = rng.normal(size=n) + 1.0
    return mean, covariance, 2.0 * rng.normal(size=n) + 0.7, rng.uniform(0.05, 3.0, size=n)


def approximate(mean, covariance, linear, precision) -> SiteApproximation:
    hidden = np.array(covariance, order="F")
    hidden[np.triu_indices(len(mean), 1)] = np.nan
    prior = DensePrior(mean, hidden)
    conditioned = Conditioning(prior)
    assert conditioned.on(linear, precision)
    return conditioned.approximation(0.0, 0)


def dense_posterior(mean, covariance, linear, precision) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of q: Sigma = (K^-1 + W)^-1 and Sigma (K^-1 m + b)."""
    inverse = np.linalg.inv(covariance)
    posterior = np.linalg.inv(inverse + np.diag(precision))
    return posterior @ (inverse @ mean + linear), posterior


def integral_of_prior_times_sites(mean, covariance, linear, precision) -> float:
    """By summation on a fine grid, n = 1 or 2."""
    grid = np.linspace(-25.0, 25.0, 4001 if len(mean) == 1 else 1501)
    f = np.stack(np.meshgrid(*[grid] * len(mean), indexing="ij"), axis=-1)
    sites = np.exp(f @ linear - 0.5 * np.square(f) @ precision)
    density = multivariate_normal(mean, covariance).pdf(f)
    return float((density * sites).sum() * (grid[1] - grid[0]) ** len(mean))


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_log_normalizer_is_the_integral_of_prior_times_sites(n, seed):
    parts = problem(n, seed)
    expected = np.log(integral_of_prior_times_sites(*parts))
    assert approximate(*parts).log_normalizer == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("n", [1, 2, 7, 80])
def test_conditioning_equals_dense_algebra(n):
    mean, covariance, linear, precision = problem(n)
    q = approximate(mean, covariance, linear, precision)
    expected, _ = dense_posterior(mean, covariance, linear, precision)
    assert_allclose(q.mean, expected, rtol=1e-7, atol=1e-8)
    root = np.diag(np.sqrt(precision))
    B = np.eye(n) + root @ covariance @ root
    assert_allclose(np.tril(q.factor), np.linalg.cholesky(B), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("precision", [1e-10, 1e-4, 1e4, 1e8])
def test_conditioning_with_extreme_precisions(precision):
    mean, covariance, _, _ = problem(4)
    w = np.array([1.0, precision, 0.2, precision])
    linear = w * np.array([0.5, -1.0, 2.0, 0.3])
    K_plus_noise = covariance + np.diag(1.0 / w)
    expected = mean + covariance @ np.linalg.solve(K_plus_noise, linear / w - mean)
    assert_allclose(approximate(mean, covariance, linear, w).mean, expected, rtol=1e-5, atol=1e-6)


def test_conditioning_makes_one_cholesky():
    mean, covariance, linear, precision = problem(5)
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    with counted() as counts:
        assert conditioned.on(linear, precision)
    assert counts.total.cubic == (1, 0, 0)
    assert_allclose(conditioned.mean, approximate(mean, covariance, linear, precision).mean, rtol=1e-13)


def test_no_two_approximations_share_memory():
    """What is conditioned on afterwards leaves a q as it was: its evidence, its draws and its variances."""
    mean, covariance, linear, precision = problem(4)
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    assert conditioned.on(linear, precision)
    first = conditioned.approximation(0.0, 0)
    expected = approximate(mean, covariance, linear, precision)
    assert conditioned.on(2.0 * linear, 3.0 * precision)
    assert conditioned.inverse_diagonal.shape == (4,)
    assert conditioned.on(0.5 * linear, 0.1 * precision)
    second = conditioned.approximation(0.0, 0)
    assert not np.shares_memory(first.factor, second.factor)
    assert first.log_normalizer == expected.log_normalizer
    draws = [q.sample(np.random.default_rng(1), 3) for q in (first, expected)]
    assert_array_equal(*draws)
    assert_array_equal(first.variance, expected.variance)


def test_a_factor_that_was_used_up_is_not_used_again():
    mean, covariance, linear, precision = problem(3)
    conditioned = Conditioning(DensePrior(mean, np.asfortranarray(covariance)))
    with pytest.raises(ValueError, match="condition on sites first"):
        conditioned.approximation(0.0, 0)
    assert conditioned.on(linear, precision)
    expected = approximate(mean, covariance, linear, precision).inverse_diagonal
    assert_allclose(conditioned.inverse_diagonal, expected, rtol=1e-13)
    with pytest.raises(ValueError, match="condition on sites first"):
        conditioned.approximation(0.0, 0)


def test_an_indefinite_b_cannot_be_conditioned_on():
    conditioned = Conditioning(DensePrior(np.zeros(2), np.asfortranarray([[1.0, 5.0], [5.0, 1.0]])))
    assert not conditioned.on(np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match="condition on sites first"):
        conditioned.approximation(0.0, 0)
    assert conditioned.on(np.zeros(2), np.full(2, 0.1))


def test_variances_are_those_of_the_dense_posterior():
    parts = problem(5)
    assert_allclose(approximate(*parts).variance, np.diag(dense_posterior(*parts)[1]), rtol=1e-9)


def test_sample_moments():
    parts, size = problem(4), 50_000
    expected, covariance = dense_posterior(*parts)
    draws = approximate(*parts).sample(np.random.default_rng(11), size)
    assert draws.shape == (size, 4)
    variances = np.diag(covariance)
    assert np.all(np.abs(draws.mean(axis=0) - expected) < 4.5 * np.sqrt(variances / size))
    error = np.sqrt((covariance**2 + np.outer(variances, variances)) / size)
    assert np.all(np.abs(np.cov(draws.T) - covariance) < 4.5 * error)


def test_draws_are_the_mean_plus_deviations():
    q = approximate(*problem(3))
    draws = q.sample(np.random.default_rng(2), 5)
    deviations = q.sample_deviations(np.random.default_rng(2), 5)
    assert_allclose(draws, q.mean + deviations, rtol=1e-14)


def test_draws_take_their_randomness_from_the_generator_given():
    """Whatever was drawn before."""
    q = approximate(*problem(3))
    expected = q.sample_deviations(np.random.default_rng(2), 5)
    q.sample_deviations(np.random.default_rng(7), 9)
    assert_array_equal(q.sample_deviations(np.random.default_rng(2), 5), expected)
    assert_array_equal(q.deviations_from(np.random.default_rng(2).standard_normal((2, 5, 3))), expected)


@pytest.mark.parametrize("n", [1, 2, 6])
def test_log_weights_are_the_log_density_ratio(n, rng):
    """log p(y|f) + log N(f|m, K) - log q(f), each term evaluated densely."""
    mean, covariance, linear, precision = problem(n)
    likelihood = BernoulliProbit(rng.integers(0, 2, size=n))
    center, posterior = dense_posterior(mean, covariance, linear, precision)
    f = 2.0 * rng.normal(size=(5, n))
    joint = likelihood.log_density(f).sum(axis=-1) + multivariate_normal(mean, covariance).logpdf(f)
    expected = joint - multivariate_normal(center, posterior).logpdf(f)
    q = approximate(mean, covariance, linear, precision)
    assert_allclose(q.log_weights(likelihood, f), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(q.log_weights(likelihood, f[0]), expected[0], rtol=1e-9, atol=1e-9)


def test_log_ratio_is_the_likelihood_over_the_sites(rng):
    mean, covariance, linear, precision = problem(4)
    likelihood = BernoulliProbit(np.array([0, 1, 1, 0]))
    f = rng.normal(size=(2, 3, 4))
    sites = (linear * f - 0.5 * precision * f**2).sum(axis=-1)
    ratio = approximate(mean, covariance, linear, precision).log_ratio(likelihood, f)
    assert_allclose(ratio, likelihood.log_density(f).sum(axis=-1) - sites, rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 6, 150])
def test_factor_of_the_posterior_covariance(n, monkeypatch):
    """Whatever stands above the diagonals, huge numbers included, it is never read and makes no warning."""
    mean, covariance, _, precision = problem(n)
    right = linalg.scaled_plus_identity

    def littered(a, scale, out=None):
        matrix = right(a, scale, out)
        matrix[np.triu_indices(n, 1)] = 1e308
        return matrix

    monkeypatch.setattr(linalg, "scaled_plus_identity", littered)
    with counted() as counts:
        found = DensePrior(mean, np.asfortranarray(covariance)).observed(precision)
    assert counts.total.cubic == (2, 1, 0)
    root = np.sqrt(precision)
    lower = np.tril(found.factor)
    assert_allclose(
        lower @ lower.T, np.linalg.inv(np.linalg.inv(covariance) + np.diag(precision)), rtol=1e-7, atol=1e-9
    )
    lower = np.tril(found.factor_of_sum)
    assert_allclose(lower @ lower.T, np.eye(n) + root[:, None] * covariance * root, rtol=1e-10, atol=1e-12)


def test_factor_of_the_posterior_covariance_of_a_singular_prior():
    """Equal inputs: K gets the jitter that its own factorization would add."""
    prior = DensePrior(np.zeros(3), np.ones((3, 3), order="F"))
    found = prior.observed(np.full(3, 2.0))
    lower = np.tril(found.factor)
    assert prior.jitter == 0.0
    assert 0.0 < found.prior.jitter < 1e-3
    assert_allclose(lower @ lower.T, np.full((3, 3), 1.0 / 7.0), atol=1e-4)


def test_factor_of_the_posterior_covariance_of_an_indefinite_prior():
    prior = DensePrior(np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]], order="F"))
    assert prior.observed(np.ones(2)) is None
