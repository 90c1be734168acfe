"""q for several latent vectors against dense linear algebra over all of them together."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from pmgp.core.gaussians import BlockConditioning, BlockPrior, DensePrior
from pmgp.core.numerics.block_matrices import DenseBlocks
from pmgp.core.numerics.ledger import counted
from tests.blocks.problems import classification, dense_matrix, dense_prior, kernel, site_blocks

N, CLASSES = 7, 3


def conditioned(form: str):
    """q for the sites at some f, in the structured form or in the general one."""
    prior, likelihood = classification(N, CLASSES, means=True)
    q = BlockConditioning(prior)
    linear, precision = q.expansion(likelihood, np.random.default_rng(4).normal(size=prior.size))
    if form == "general":
        precision = DenseBlocks(precision.blocks + 0.1 * np.eye(CLASSES))
    assert q.on(linear, precision)
    return q, likelihood


both_forms = pytest.mark.parametrize("form", ["contrasts", "general"])


def dense_posterior(q) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of q by inverses."""
    prior = dense_prior(q.prior)
    inverse = np.linalg.inv(prior.covariance)
    covariance = np.linalg.inv(inverse + dense_matrix(q.precision.blocks))
    return covariance @ (inverse @ prior.mean + q.linear), covariance


@both_forms
def test_moments_are_those_of_inverses(form):
    q, _ = conditioned(form)
    mean, covariance = dense_posterior(q)
    assert_allclose(q.mean, mean, atol=1e-8)
    assert_allclose(q.residual, q.linear - q.precision.product(mean), atol=1e-8)
    approximation = q.approximation(0.0, 1)
    assert_allclose(approximation.marginals, site_blocks(covariance, N), atol=1e-8)
    assert_allclose(approximation.variance, covariance.diagonal(), atol=1e-8)


@both_forms
def test_draws_have_the_covariance(form):
    """They are linear in the normals, whose images give the covariance without sampling."""
    q, _ = conditioned(form)
    approximation, size = q.approximation(0.0, 1), N * CLASSES
    ones, zeros = np.eye(size), np.zeros((size, size))
    images = np.concatenate([approximation.deviations_from(np.stack(e)) for e in ((ones, zeros), (zeros, ones))])
    assert_allclose(images.T @ images, dense_posterior(q)[1], atol=1e-8)
    drawn = approximation.sample(np.random.default_rng(0), 3) - approximation.mean
    assert_allclose(drawn, approximation.sample_deviations(np.random.default_rng(0), 3))


@both_forms
def test_weights_are_ratios_of_densities(form):
    q, likelihood = conditioned(form)
    mean, covariance = dense_posterior(q)
    prior, f = dense_prior(q.prior), np.random.default_rng(5).normal(size=(4, N * CLASSES))
    expected = likelihood.log_likelihood(f) + multivariate_normal(prior.mean, prior.covariance).logpdf(f)
    expected -= multivariate_normal(mean, 0.5 * (covariance + covariance.T)).logpdf(f)
    approximation = q.approximation(0.0, 1)
    assert_allclose(approximation.log_weights(likelihood, f), expected, rtol=1e-7)
    assert_allclose(approximation.log_normalizer, q.log_normalizer)


def test_the_prior_is_the_dense_one_of_all_vectors():
    prior = classification(N, CLASSES, means=True)[0]
    dense = dense_prior(prior)
    rng = np.random.default_rng(6)
    f, several = rng.normal(size=prior.size), rng.normal(size=(3, prior.size))
    assert_allclose(prior.log_density(f), dense.log_density(f))
    assert_allclose(prior.variance, dense.variance)
    for name in ("whiten", "deviation", "unwhiten", "pull", "solve", "product", "precision_product"):
        assert_allclose(getattr(prior, name)(f), getattr(dense, name)(f), atol=1e-8, err_msg=name)
    assert_allclose(prior.whiten(several), dense.whiten(several), atol=1e-8)
    assert_allclose(prior.deviations_from(several), dense.deviations_from(several), atol=1e-8)
    assert_allclose(prior.precision_factor(np.exp(f)), np.tril(dense.precision_factor(np.exp(f))), atol=1e-8)
    assert_allclose(prior.scaled(2.0).log_density(f), dense.scaled(2.0).log_density(f))


def blocks_of(matrix: np.ndarray) -> np.ndarray:
    """The n x n blocks on the diagonal: (C, n, n)."""
    return np.array([matrix[c * N : (c + 1) * N, c * N : (c + 1) * N] for c in range(len(matrix) // N)])


def test_gradients_are_those_of_the_dense_prior():
    prior = classification(N, CLASSES, means=True)[0]
    dense = dense_prior(prior)
    rng = np.random.default_rng(7)
    f, g = rng.normal(size=(2, prior.size))
    changes = [part.covariance * (1.0 + c) for c, part in enumerate(prior.parts)]
    full = np.asfortranarray(dense_matrix(np.zeros((N, CLASSES, CLASSES))))
    for c, change in enumerate(changes):
        full[c * N : (c + 1) * N, c * N : (c + 1) * N] = change
    covariance, mean = prior.log_density_gradient(f)
    expected, expected_mean = dense.log_density_gradient(f)
    assert_allclose(covariance, blocks_of(expected), atol=1e-6)
    assert_allclose(mean, expected_mean, atol=1e-6)
    assert_allclose(prior.unwhitening_gradient(f, g), blocks_of(dense.unwhitening_gradient(f, g)), atol=1e-8)
    own = prior.unwhitening_changes(f, np.array([changes]))
    assert_allclose(own, dense.unwhitening_changes(f, full[None]), atol=1e-8)
    means = np.stack([f, g])
    own = prior.fisher_information(means, [np.array(changes), 2.0 * np.array(changes)])
    assert_allclose(own, dense.fisher_information(means, [full, 2.0 * full]), rtol=1e-7)


def test_observed_vectors_are_the_dense_ones():
    prior = classification(N, CLASSES, means=True)[0]
    precision = np.random.default_rng(8).gamma(2.0, size=prior.size)
    own, dense = prior.observed(precision), dense_prior(prior).observed(precision)
    g = np.random.default_rng(9).normal(size=prior.size)
    for name in ("mean_given", "whiten", "whitened", "deviation", "unwhiten", "pull"):
        assert_allclose(getattr(own, name)(g), getattr(dense, name)(g), atol=1e-6, err_msg=name)
    assert_allclose(own.log_density_of(g), dense.log_density_of(g))
    assert_allclose(own.precision, precision)


def singular() -> DensePrior:
    return DensePrior(np.zeros(3), np.ones((3, 3), order="F"))


def test_a_part_that_needs_a_jitter_gets_it_alone():
    x = np.random.default_rng(0).normal(size=(3, 2))
    sound = DensePrior(np.zeros(3), kernel(x, 1.0, 1.0))
    factorized = BlockPrior([sound, singular()]).factorized()
    assert factorized.parts[0] is sound
    assert factorized.jitter == factorized.parts[1].jitter > 0.0
    assert BlockPrior([sound, sound]).factorized().jitter == 0.0


def test_an_indefinite_part_gives_none():
    indefinite = DensePrior(np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]], order="F"))
    sound = DensePrior(np.zeros(2), np.eye(2, order="F"))
    assert BlockPrior([sound, indefinite]).factorized() is None
    assert BlockPrior([sound, indefinite]).observed(np.full(4, 2.0)) is None


def test_a_shared_covariance_is_factorized_once():
    part = DensePrior(np.zeros(4), np.eye(4, order="F"))
    with counted() as ledger:
        BlockPrior([part] * 5).factorized().sample(np.random.default_rng(0), 2)
    assert ledger.total.cholesky == 1


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(ValueError, match="the same length, not \\[2, 3\\] elements"):
        BlockPrior([DensePrior(np.zeros(n), np.eye(n, order="F")) for n in (2, 3)])
