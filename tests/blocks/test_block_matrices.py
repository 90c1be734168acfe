"""Both forms of block-diagonal matrices against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag

from pmgp.core.numerics.block_matrices import ContrastBlocks, DenseBlocks
from pmgp.core.numerics.ledger import counted
from tests.blocks.problems import dense_matrix, kernel, site_blocks

N, NUMBER = 9, 4


def contrasts(seed: int = 0) -> ContrastBlocks:
    return ContrastBlocks(np.random.default_rng(seed).gamma(0.7, size=(NUMBER, N)) + 1e-3)


def general(seed: int = 0) -> DenseBlocks:
    roots = np.random.default_rng(seed).normal(size=(N, NUMBER, NUMBER))
    return DenseBlocks(roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(NUMBER))


def covariances() -> list[np.ndarray]:
    """With garbage above the diagonals, which nothing may read."""
    x = np.random.default_rng(1).normal(size=(N, 2))
    found = [kernel(x, 1.0 + c, 0.5 + 0.4 * c) for c in range(NUMBER)]
    for covariance in found:
        covariance[np.triu_indices(N, 1)] = np.inf
    return found


def block_diagonal() -> np.ndarray:
    return block_diag(*[np.tril(k) + np.tril(k, -1).T for k in covariances()])


both_forms = pytest.mark.parametrize("form", [contrasts, general])


@both_forms
def test_products_are_those_of_the_blocks(form):
    w = form()
    full, x = dense_matrix(w.blocks), np.random.default_rng(2).normal(size=(3, N * NUMBER))
    assert_allclose(w.product(x), x @ full, atol=1e-12)
    assert_allclose(w.quadratic(x), np.einsum("ki,ij,kj->k", x, full, x), rtol=1e-12)


@both_forms
def test_root_product_has_the_covariance(form):
    w = form()
    root = w.root_product(np.eye(N * NUMBER))
    assert_allclose(root.T @ root, dense_matrix(w.blocks), atol=1e-12)


@both_forms
def test_shrinkage_is_that_of_dense_matrices(form):
    w, k = form(), block_diagonal()
    full = dense_matrix(w.blocks)
    shrinkage = w.shrinkage(covariances())
    expected = k @ np.linalg.inv(np.eye(len(k)) + full @ k)
    x = np.random.default_rng(3).normal(size=(N * NUMBER, 2))
    assert_allclose(shrinkage.product(x), expected @ x, atol=1e-9)
    assert_allclose(shrinkage.product(x[:, 0]), expected @ x[:, 0], atol=1e-9)
    assert_allclose(shrinkage.log_determinant, np.linalg.slogdet(np.eye(len(k)) + k @ full)[1], rtol=1e-10)
    assert_allclose(shrinkage.marginals(), site_blocks(expected, N), atol=1e-8)


@both_forms
def test_draws_have_the_covariance(form):
    """They are linear in draws from the prior, of covariance K, and in standard normals."""
    shrinkage, k = form().shrinkage(covariances()), block_diagonal()
    unit, nothing = np.eye(len(k)), np.zeros_like(k)
    by_prior, by_normals = shrinkage.drawn(unit, nothing), shrinkage.drawn(nothing, unit)
    expected = shrinkage.product(unit)
    assert_allclose(by_prior.T @ k @ by_prior + by_normals.T @ by_normals, expected, atol=1e-9)


def test_contrasts_need_one_factorization_more_than_there_are_vectors():
    with counted() as ledger:
        contrasts().shrinkage(covariances())
    assert (ledger.total.cholesky, ledger.total.inverse, ledger.total.matmul) == (NUMBER + 1, NUMBER, 0)


@both_forms
def test_an_indefinite_covariance_gives_none(form):
    broken = covariances()
    broken[2] = broken[2].copy(order="F")
    broken[2][3, 3] = np.nan
    assert form().shrinkage(broken) is None


@both_forms
def test_parameters_give_the_same_matrix_again(form):
    w = form()
    assert_allclose(type(w).of(w.parameters, N).blocks, w.blocks, rtol=1e-10, atol=1e-12)


@both_forms
def test_a_step_towards_another_is_linear(form):
    one, other = form(), form(seed=1)
    assert_allclose(one.towards(other, 1.0).blocks, other.blocks)
    assert_allclose(one.towards(other, 0.0).blocks, one.blocks)


def test_the_nearest_general_blocks_are_positive():
    vectors = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2, 2)))[0]
    values = np.array([[2.0, -0.5], [1.0, 3.0]])
    blocks = (vectors * values[:, None, :]) @ vectors.swapaxes(1, 2)
    # Diagonals are one on average, so that the units in which eigenvalues are changed are one.
    unit = np.sqrt(np.abs(np.einsum("icc->ic", blocks)).mean(axis=0))
    blocks /= np.outer(unit, unit)
    values, vectors = np.linalg.eigh(blocks)
    assert values[0, 0] < 0.0
    nearest, positive = DenseBlocks.nearest(blocks).blocks, DenseBlocks.from_curvature(blocks).blocks
    assert_allclose(nearest[0], values[0, 1] * np.outer(vectors[0, :, 1], vectors[0, :, 1]), atol=1e-8)
    assert_allclose(np.linalg.eigvalsh(positive)[0], np.sort(np.abs(values[0])), atol=1e-8)
    assert_allclose(nearest[1], blocks[1])


def test_units_of_the_vectors_do_not_matter(rng):
    blocks, units = rng.normal(size=(5, 2, 2)), np.array([1e6, 1e-3])
    blocks += blocks.swapaxes(1, 2)
    for made in (DenseBlocks.nearest, DenseBlocks.from_curvature):
        assert_allclose(made(np.outer(units, units) * blocks).blocks, np.outer(units, units) * made(blocks).blocks)


def precision_of_contrasts(number: int) -> np.ndarray:
    """Blocks that a sum over the elements of f_i does not change, of no other form."""
    rng = np.random.default_rng(number)
    roots = rng.normal(size=(50, number, number)) * 0.2 + np.eye(number)
    center = np.eye(number) - 1.0 / number
    blocks = center @ roots @ roots.swapaxes(1, 2) @ center
    keep = (blocks[:, *np.triu_indices(number, 1)] < -0.02).all(axis=1)
    return blocks[keep]


def test_the_nearest_contrasts_of_three_are_exact():
    blocks = precision_of_contrasts(3)
    assert len(blocks) > 10
    assert_allclose(ContrastBlocks.nearest(blocks).blocks, blocks, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-6])
def test_the_nearest_contrasts_of_contrasts_are_themselves(scale):
    given = ContrastBlocks(scale * contrasts().scale)
    assert_allclose(ContrastBlocks.nearest(given.blocks).scale, given.scale, rtol=1e-6, atol=1e-10)


def test_the_nearest_contrasts_of_five_miss_by_little():
    blocks = precision_of_contrasts(5)
    error = ContrastBlocks.nearest(blocks).blocks - blocks
    assert np.abs(error).max() < 0.5 * np.abs(blocks).max()
    assert_allclose(ContrastBlocks.nearest(blocks).blocks.sum(axis=2), 0.0, atol=1e-12)
