"""Sparse precisions are compared with dense algebra."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse

from pmgp.core.markov import ChainPattern, SparsePattern
from tests.markov.cases import Case, chain_case, disconnected_case, lattice_case, soft_sum_case, sparse_case

CASES = {
    "one": chain_case(1, 1, 3),
    "first order": chain_case(7, 1),
    "three elements": chain_case(6, 3),
    "one block": chain_case(1, 3),
    "sparse": sparse_case(),
    "sparse, one": sparse_case(1, 2),
    "disconnected": disconnected_case(),
    "lattice": lattice_case(),
    "larger lattice": lattice_case(9, 11),
}
SUMS = {"sum": soft_sum_case(1, 2, 3.0), "known sum": soft_sum_case(deviation=0.02)}
every_case = pytest.mark.parametrize("case", [*CASES.values(), *SUMS.values()], ids=[*CASES, *SUMS])
every_sparse_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10 * (1.0 + np.abs(expected).max()))


def state(case: Case, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=case.pattern.shape)


@every_case
def test_determinants_and_solutions(case):
    factor, b = case.pattern.factorize(case.values), state(case)
    assert factor is not None
    close(factor.log_determinant, np.linalg.slogdet(case.precision)[1])
    close(factor.solve(b).ravel(), np.linalg.solve(case.precision, b.ravel()))


@every_case
def test_products_with_precision_and_design(case):
    x, b = state(case), np.random.default_rng(4).normal(size=case.pattern.sites)
    close(case.pattern.product(case.values, x).ravel(), case.precision @ x.ravel())
    close(case.pattern.observe(x), case.design @ x.ravel())
    close(case.pattern.observe(np.stack([x, 2.0 * x])), np.stack([1.0, 2.0])[:, None] * (case.design @ x.ravel()))
    close(case.pattern.spread(b).ravel(), case.design.T @ b)


@every_case
def test_variances_at_the_sites(case):
    factor = case.pattern.factorize(case.values)
    variances = np.diag(case.design @ np.linalg.inv(case.precision) @ case.design.T)
    close(case.pattern.site_variances(factor.covariances()), variances)


def test_columns_of_a_block_have_the_same_rows_below_them():
    """And those that follow a block do not."""
    pattern = CASES["larger lattice"].pattern
    (first, node), (starts, rows) = pattern.supernodes, pattern.columns
    columns = [set(rows[starts[j] : starts[j + 1]]) for j in range(len(node))]
    same = [node[j] == node[j + 1] for j in range(len(node) - 1)]
    assert same == [columns[j] == columns[j + 1] | {j + 1} for j in range(len(node) - 1)]
    np.testing.assert_array_equal(first[node], [min(np.flatnonzero(node == block)) for block in node])
    assert np.diff(first).max() > 5


@every_sparse_case
def test_the_inverse_on_the_pattern_has_the_right_inner_products(case):
    """With Q itself it gives the number of elements; with the symmetric part of x y', a quadratic form."""
    inverse = np.linalg.inv(case.precision)
    covariances = case.pattern.counted(case.pattern.factorize(case.values).covariances())
    x, y = state(case), state(case, 5)
    close((covariances * case.values).sum(), float(case.precision.shape[0]))
    outer = case.pattern.outer(x, y)
    close((case.pattern.counted(outer) * case.values).sum(), x.ravel() @ case.precision @ y.ravel())
    if isinstance(case.pattern, SparsePattern):
        rows, columns = case.pattern.positions
        close(case.pattern.factorize(case.values).covariances(), inverse[rows, columns])


@pytest.mark.parametrize("case", SUMS.values(), ids=SUMS)
def test_the_inverse_beside_a_sum_is_that_of_the_dense_matrix(case):
    rows, columns = case.pattern.positions
    factor = case.pattern.factorize(case.values)
    inverse, direction = np.linalg.inv(case.precision), case.pattern.direction
    expected = np.append(inverse[rows, columns], direction @ inverse @ direction)
    close(factor.covariances(), expected)
    # A twin that forgets the sum.
    assert np.abs(factor.plain.covariances() - expected[:-1]).max() > 0.1


@every_case
def test_normals_are_those_that_a_draw_is_made_of(case):
    if isinstance(case.pattern, SparsePattern):
        factor, x = case.pattern.factorize(case.values), state(case)
        normals = factor.normals(x)
        close(factor.sample_from(normals[None, :])[0], x)
        close(normals @ normals, x @ case.precision @ x)


@every_case
def test_sites_add_to_the_precision(case):
    w = np.random.default_rng(6).random(case.pattern.sites)
    dense = case.precision + case.design.T @ (w[:, None] * case.design)
    factor = case.pattern.factorize(case.pattern.with_sites(case.values, w))
    b = state(case)
    close(factor.log_determinant, np.linalg.slogdet(dense)[1])
    close(factor.solve(b).ravel(), np.linalg.solve(dense, b.ravel()))


class Unit:
    """Gives unit vectors in place of normals, so that draws are the columns of a root of the covariance."""

    def standard_normal(self, shape):
        number = int(np.sqrt(np.prod(shape)))
        return np.eye(number).reshape(shape)


@every_case
def test_draws_are_a_root_of_the_covariance(case):
    number = case.precision.shape[0]
    root = case.pattern.factorize(case.values).sample(Unit(), number).reshape(number, -1)
    close(root.T @ root, np.linalg.inv(case.precision))


@every_case
@pytest.mark.parametrize("spoilt", [np.nan, np.inf, -1e3])
def test_an_indefinite_precision_has_no_factor(case, spoilt):
    values = case.values.copy()
    if isinstance(case.pattern, ChainPattern):
        values[0, -1, -1, -1] = spoilt
    else:
        rows, columns = case.pattern.positions
        values[np.flatnonzero(rows == columns)[-1]] = spoilt
    assert case.pattern.factorize(values) is None
    assert case.pattern.factorize(case.values) is not None


def test_a_zero_pivot_has_no_factor():
    ones = sparse.csc_array(np.ones((2, 2)))
    pattern = SparsePattern(ones)
    assert pattern.factorize(pattern.values(ones)) is None


@every_sparse_case
def test_permuted_sites_and_elements_give_the_same(case):
    if isinstance(case.pattern, ChainPattern):
        return
    number = case.precision.shape[0]
    order = np.random.default_rng(7).permutation(number)
    permuted = sparse.csc_array(case.precision[np.ix_(order, order)])
    pattern = SparsePattern(permuted, sparse.csr_array(case.design[:, order]))
    factor, other = case.pattern.factorize(case.values), pattern.factorize(pattern.values(permuted))
    close(other.log_determinant, factor.log_determinant)
    close(pattern.site_variances(other.covariances()), case.pattern.site_variances(factor.covariances()))


@every_case
def test_patterns_survive_a_pickle(case):
    again = pickle.loads(pickle.dumps(case.pattern))
    assert again.factorize(case.values).log_determinant == case.pattern.factorize(case.values).log_determinant


def test_sites_that_look_elsewhere_are_refused():
    with pytest.raises(ValueError, match="depend on blocks 0 to 3, but the blocks are 0 to 2"):
        ChainPattern(np.arange(4), np.ones((4, 1)), 3)
    with pytest.raises(ValueError, match="one row for each site"):
        ChainPattern(np.arange(4), np.ones((3, 1)), 4)
    with pytest.raises(ValueError, match="a row for each column of the design"):
        SparsePattern(sparse.eye_array(3), sparse.csr_array(np.ones((2, 4))))


def test_another_pattern_is_refused():
    pattern = SparsePattern(sparse.eye_array(3))
    with pytest.raises(ValueError, match="another pattern than at first"):
        pattern.values(sparse.csc_array(np.ones((3, 3))))
