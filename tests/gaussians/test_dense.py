"""The dense prior: its density, draws, whitening, and the fixed sequence of jitters."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

from pmgp.core.gaussians import DensePrior
from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import counted

MEAN = np.array([0.5, -1.0, 2.0, 0.0])
ROOT = np.array([[1.3, 0, 0, 0], [0.7, 0.9, 0, 0], [-0.4, 0.8, 1.1, 0], [0.2, 0.1, -0.6, 0.5]])
COVARIANCE = ROOT @ ROOT.T


def lower(covariance: np.ndarray) -> np.ndarray:
    """The covariance in LAPACK's order with NaN in the triangle that must not be read."""
    hidden = np.array(covariance, order="F")
    hidden[np.triu_indices(len(covariance), 1)] = np.nan
    return hidden


@pytest.fixture
def prior() -> DensePrior:
    return DensePrior(MEAN, lower(COVARIANCE))


def with_smallest_eigenvalue(value: float) -> np.ndarray:
    """A covariance of mean variance 2 with one small or negative eigenvalue."""
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    eigenvalues = np.array([value, 1.0, 2.0, 5.0 - value])
    return rotation @ np.diag(eigenvalues) @ rotation.T


def test_log_density(prior, rng):
    for f in rng.normal(size=(5, 4)):
        expected = multivariate_normal(MEAN, COVARIANCE).logpdf(f)
        assert prior.log_density(f) == pytest.approx(expected, abs=1e-10)


def test_whitening_is_multiplication_by_the_inverse_factor(prior, rng):
    f = rng.normal(size=4)
    assert_allclose(prior.whiten(f), np.linalg.solve(ROOT, f - MEAN), rtol=1e-12)
    assert_allclose(prior.unwhiten(prior.whiten(f)), f, rtol=1e-12)
    assert_allclose(prior.unwhiten(np.zeros(4)), MEAN)


def test_sample_moments(prior, rng):
    size = 50_000
    draws = prior.sample(rng, size)
    assert draws.shape == (size, 4)
    variances = np.diag(COVARIANCE)
    assert np.all(np.abs(draws.mean(axis=0) - MEAN) < 4.5 * np.sqrt(variances / size))
    # The standard error of a sample covariance of normal draws (Isserlis).
    error = np.sqrt((COVARIANCE**2 + np.outer(variances, variances)) / size)
    assert np.all(np.abs(np.cov(draws.T) - COVARIANCE) < 4.5 * error)


def test_the_factor_is_made_when_needed_and_only_once(prior, rng):
    with counted() as counts:
        assert prior.size == 4
        assert counts.total.cholesky == 0
        f = prior.sample(rng, 2)[0]
        prior.log_density(f)
        prior.unwhiten(prior.whiten(f))
    assert counts.total.cholesky == 1


def test_a_definite_covariance_gets_no_jitter(prior):
    before = prior.covariance.copy()
    assert_allclose(np.tril(prior.factor), ROOT, rtol=1e-12)
    assert prior.jitter == 0.0
    assert_array_equal(prior.covariance, before)


@pytest.mark.parametrize(("eigenvalue", "jitter"), [(-1e-9, 1e-8), (-1e-7, 1e-6), (-1e-5, 1e-4)])
def test_the_smallest_jitter_that_suffices_is_added_once(eigenvalue, jitter):
    covariance = with_smallest_eigenvalue(eigenvalue)
    scale = np.trace(covariance) / 4
    given = DensePrior(MEAN, lower(covariance))
    prior = given.factorized()
    factor = np.tril(prior.factor)
    assert prior.jitter == pytest.approx(jitter * scale, rel=1e-9)
    assert given.jitter == 0.0
    assert_array_equal(np.tril(given.covariance), np.tril(covariance))
    assert given.factorized() is prior
    raised = covariance + jitter * scale * np.eye(4)
    assert_allclose(np.tril(prior.covariance), np.tril(raised), rtol=1e-12)
    assert_allclose(factor @ factor.T, raised, rtol=1e-10, atol=1e-12)


def test_jitter_follows_the_units_of_f():
    covariance = with_smallest_eigenvalue(-1e-7)
    small, large = (DensePrior(MEAN, lower(k)).factorized() for k in (covariance, 1e6 * covariance))
    assert large.jitter == pytest.approx(1e6 * small.jitter)


def test_duplicate_inputs_are_factorized():
    x = np.array([0.0, 0.0, 0.3, 0.3, 1.0])
    covariance = np.exp(-0.5 * np.square(x[:, None] - x))
    prior = DensePrior(np.zeros(5), lower(covariance)).factorized()
    factor = np.tril(prior.factor)
    assert_allclose(factor @ factor.T, covariance, atol=2e-6)


@pytest.mark.parametrize("covariance", [with_smallest_eigenvalue(-0.01), np.full((4, 4), np.nan)])
def test_a_covariance_that_stays_indefinite_has_no_factor(covariance):
    prior = DensePrior(MEAN, lower(covariance))
    assert prior.factorized() is None
    with pytest.raises(linalg.NotPositiveDefiniteError, match="`factorized` returns the prior with the jitter"):
        prior.factor  # noqa: B018


def test_a_jitter_that_is_there_is_replaced_and_not_added_to():
    """As of a prior that was scaled with its jitter, which has to be that of a prior of its scale."""
    covariance = with_smallest_eigenvalue(-2e-7)
    scale = np.trace(covariance) / 4
    given = DensePrior(MEAN, lower(covariance + 5e-8 * scale * np.eye(4)), 5e-8 * scale)
    raised = given.factorized()
    assert raised.jitter == pytest.approx(1e-6 * scale, rel=1e-6)
    assert_allclose(np.diag(raised.covariance) - np.diag(covariance), 1e-6 * scale, rtol=1e-6)


def test_the_fisher_information_by_dense_algebra(prior, rng):
    """Parameters that do not change the covariance cost no product, and keep their part from the mean."""
    K, means = COVARIANCE, rng.normal(size=(4, len(MEAN)))
    changes = np.array([K, 0.0 * K, np.diag(rng.uniform(size=len(K))), 0.0 * K])
    with counted() as counts:
        information = prior.fisher_information(means, changes)
    assert counts.total.cubic == (1, 1, 2)
    inverse = np.linalg.inv(K)
    traces = [[0.5 * np.trace(inverse @ a @ inverse @ b) for b in changes] for a in changes]
    assert_allclose(information, traces + means @ inverse @ means.T, rtol=1e-7, atol=1e-9)
    means, changes = means[1::2], changes[1::2]
    assert_allclose(prior.fisher_information(means, changes), means @ inverse @ means.T, rtol=1e-7)
