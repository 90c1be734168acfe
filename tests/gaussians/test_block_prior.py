"""Several vectors with a prior each are one vector with a block-diagonal covariance: operations are the dense ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.numerics.block_matrices import DenseBlocks

SITES, VECTORS = 4, 3
RNG = np.random.default_rng(7)


def covariance() -> np.ndarray:
    root = RNG.normal(size=(SITES, SITES + 2))
    return np.asfortranarray(root @ root.T)


COVARIANCES = [covariance() for _ in range(VECTORS)]
MEAN = RNG.normal(size=SITES * VECTORS)
X, Y = RNG.normal(size=(2, SITES * VECTORS))
SEVERAL = RNG.normal(size=(5, SITES * VECTORS))
PRECISION = RNG.uniform(0.5, 2.0, SITES * VECTORS)


@pytest.fixture
def blocks() -> BlockPrior:
    found = BlockPrior([DensePrior(m, K) for m, K in zip(np.split(MEAN, VECTORS), COVARIANCES, strict=True)])
    return found.factorized()


@pytest.fixture
def dense() -> DensePrior:
    return DensePrior(MEAN, np.asfortranarray(block_diag(*COVARIANCES))).factorized()


def diagonal_blocks(matrix: np.ndarray) -> np.ndarray:
    return np.array([matrix[k : k + SITES, k : k + SITES] for k in range(0, len(matrix), SITES)])


@pytest.mark.parametrize(
    "operation",
    [
        lambda prior: prior.variance,
        lambda prior: prior.whiten(X),
        lambda prior: prior.whiten(SEVERAL),
        lambda prior: prior.deviation(X),
        lambda prior: prior.deviations_from(SEVERAL),
        lambda prior: prior.pull(X),
        lambda prior: prior.solve(X),
        lambda prior: prior.product(X),
        lambda prior: prior.inverted().precision_product(X),
        lambda prior: prior.log_density(X),
        lambda prior: prior.log_density_gradient(X)[1],
        lambda prior: prior.scaled(1.7).log_density(X),
        lambda prior: np.tril(prior.precision_factor(PRECISION)),
        lambda prior: prior.observed(PRECISION).log_density_of(X),
    ],
)
def test_operations_are_those_of_the_dense_prior(operation, blocks, dense):
    assert_allclose(operation(blocks), operation(dense), rtol=1e-10, atol=1e-12)


def test_gradients_in_the_covariances_are_the_diagonal_blocks(blocks, dense):
    for gradient in (lambda prior: prior.log_density_gradient(X)[0], lambda prior: prior.unwhitening_gradient(X, Y)):
        assert_allclose(np.tril(gradient(blocks)), np.tril(diagonal_blocks(gradient(dense))), rtol=1e-10, atol=1e-12)


def test_changes_of_the_covariances_are_changes_of_the_diagonal_blocks(blocks, dense):
    changes = np.array([[covariance() for _ in range(VECTORS)] for _ in range(2)])
    whole = np.array([block_diag(*change) for change in changes])
    found, expected = blocks.unwhitening_changes(X, changes), dense.unwhitening_changes(X, whole)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    means = RNG.normal(size=(2, SITES * VECTORS))
    found, expected = blocks.fisher_information(means, changes), dense.fisher_information(means, whole)
    assert_allclose(found, expected, rtol=1e-10)


def test_sites_that_are_definite_only_before_rounding_are_refused(blocks):
    sites = DenseBlocks(np.ones((SITES, VECTORS, VECTORS)))
    assert not blocks.conditioning().on(np.zeros(SITES * VECTORS), sites)


def test_one_part_that_is_not_finite_or_not_definite_is_enough(blocks):
    for bad, finite in ((np.full((SITES, SITES), np.nan), False), (-np.eye(SITES), True)):
        prior = BlockPrior([*blocks.parts[:2], DensePrior(np.zeros(SITES), np.asfortranarray(bad))])
        assert prior.is_finite == finite
        assert prior.factorized() is None
        assert prior.observed(PRECISION) is None
