"""Every routine equals dense NumPy while the triangle that must not be read holds NaN."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import OperationCounts, counted
from pmgp.core.numerics.linalg import BLOCK

SIZES = [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 150]
every_size = pytest.mark.parametrize("n", SIZES)
one_or_several_columns = pytest.mark.parametrize("columns", [(), (1,), (3,)])


def positive_definite(n: int, seed: int = 0) -> np.ndarray:
    a = np.random.default_rng(seed).normal(size=(n, n + 2))
    return a @ a.T / n + 0.5 * np.eye(n)


def hide_upper(a: np.ndarray) -> np.ndarray:
    """Put NaN above the diagonal, in LAPACK's order."""
    hidden = np.array(a, order="F")
    hidden[np.triu_indices(len(a), 1)] = np.nan
    return hidden


@every_size
@pytest.mark.parametrize("order", ["F", "C"])
def test_cholesky_reads_and_writes_the_lower_triangle_only(n, order):
    a = positive_definite(n)
    given = np.array(hide_upper(a), order=order)
    before = given.copy()
    assert_allclose(np.tril(linalg.cholesky(given)), np.linalg.cholesky(a), rtol=1e-10, atol=1e-12)
    assert_array_equal(given, before)
    in_place = linalg.cholesky(given, overwrite=True)
    assert_array_equal(np.tril(in_place), np.tril(linalg.cholesky(before)))
    assert np.isnan(in_place[np.triu_indices(n, 1)]).all()


def test_cholesky_in_place_makes_no_copy():
    given = hide_upper(positive_definite(70))
    assert np.shares_memory(linalg.cholesky(given, overwrite=True), given)
    copied = hide_upper(positive_definite(70))
    assert not np.shares_memory(linalg.cholesky(copied), copied)


@every_size
@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_cholesky_refuses_indefinite_matrices(n, where):
    position = {"first": 0, "middle": n // 2, "last": n - 1}[where]
    a = positive_definite(n)
    a[position, position] = -1.0
    with pytest.raises(linalg.NotPositiveDefiniteError, match="not positive"):
        linalg.cholesky(np.asfortranarray(a))


@every_size
@pytest.mark.parametrize("position", [(0, 0), (-1, 0), (-1, -1), (-1, -2)])
def test_cholesky_refuses_nan(n, position):
    a = positive_definite(n)
    row, column = position[0] % n, position[1] % n
    a[max(row, column), min(row, column)] = np.nan
    with pytest.raises(linalg.NotPositiveDefiniteError):
        linalg.cholesky(np.asfortranarray(a))


def test_cholesky_refuses_an_infinite_variance():
    with pytest.raises(linalg.NotPositiveDefiniteError):
        linalg.cholesky(np.diag([np.inf, 1.0, 1.0]).copy(order="F"))


def test_indefinite_is_a_linear_algebra_error():
    assert issubclass(linalg.NotPositiveDefiniteError, np.linalg.LinAlgError)


@every_size
@one_or_several_columns
def test_solves_and_products(n, columns, rng):
    a = positive_definite(n)
    L = np.linalg.cholesky(a)
    hidden_a, hidden_L = hide_upper(a), hide_upper(L)
    b = rng.normal(size=(n, *columns))
    before = b.copy()
    same = {"rtol": 1e-8, "atol": 1e-10}
    assert_allclose(linalg.cholesky_solve(hidden_L, b), np.linalg.solve(a, b), **same)
    assert_allclose(linalg.triangular_solve(hidden_L, b), np.linalg.solve(L, b), **same)
    transposed = linalg.triangular_solve(hidden_L, b, transpose=True)
    assert_allclose(transposed, np.linalg.solve(L.T, b), **same)
    assert_allclose(linalg.triangular_product(hidden_L, b), L @ b, **same)
    assert_allclose(linalg.triangular_product(hidden_L, b, transpose=True), L.T @ b, **same)
    assert_allclose(linalg.symmetric_product(hidden_a, b), a @ b, **same)
    assert_array_equal(b, before)


@every_size
def test_log_determinant(n):
    a = positive_definite(n)
    factor = hide_upper(np.linalg.cholesky(a))
    assert linalg.log_determinant(factor) == pytest.approx(np.linalg.slogdet(a)[1], abs=1e-9)


@every_size
def test_inverse_diagonal(n):
    a = positive_definite(n)
    factor = hide_upper(np.linalg.cholesky(a))
    before = factor.copy()
    with counted() as counts:
        assert_allclose(linalg.inverse_diagonal(factor), np.diag(np.linalg.inv(a)), rtol=1e-9)
    assert counts.total.cubic == (0, 1, 0)
    assert_array_equal(factor, before)


@pytest.mark.parametrize("n", [64, 65, 131, 300])
def test_inverse_diagonal_of_a_matrix_near_singularity(n):
    """By halves it loses no more than the condition of B, 1e12, explains; the reference substitutes in more digits."""
    inputs = np.linspace(0.0, 1.0, n)
    a = np.eye(n) + 1e10 * np.exp(-0.5 * np.square((inputs[:, None] - inputs) / 0.3))
    factor = linalg.cholesky(np.asfortranarray(a))
    exact = np.tril(factor).astype(np.longdouble)
    columns = np.zeros((n, n), dtype=np.longdouble)
    for row in range(n):
        columns[row] = ((np.arange(n) == row) - exact[row, :row] @ columns[:row]) / exact[row, row]
    assert_allclose(linalg.inverse_diagonal(factor), np.square(columns).sum(axis=0).astype(float), rtol=1e-7)


@every_size
def test_inverse(n):
    a = positive_definite(n)
    factor = hide_upper(np.linalg.cholesky(a))
    before = factor.copy()
    with counted() as counts:
        inverse = linalg.inverse(factor)
        assert_allclose(np.tril(inverse), np.tril(np.linalg.inv(a)), rtol=1e-8, atol=1e-10)
        assert inverse.flags.f_contiguous
    assert counts.total.cubic == (0, 1, 0)
    assert_array_equal(factor, before)


@pytest.mark.parametrize("transpose", [False, True])
def test_a_single_column_is_a_vector(transpose, rng):
    """However the columns lie in memory, one of them gives what the vector gives, in the shape of a column."""
    a = positive_definite(40)
    hidden_a, hidden_L = hide_upper(a), hide_upper(np.linalg.cholesky(a))
    columns = rng.normal(size=(40, 3))
    for column in (columns[:, 1:2], np.asfortranarray(columns)[:, 1:2], columns[:, 1:2].copy()):
        vector = column[:, 0].copy()
        expected = linalg.triangular_product(hidden_L, vector, transpose=transpose)[:, None]
        assert_array_equal(linalg.triangular_product(hidden_L, column, transpose=transpose), expected)
        assert_array_equal(
            linalg.symmetric_product(hidden_a, column), linalg.symmetric_product(hidden_a, vector)[:, None]
        )


@every_size
@pytest.mark.parametrize("reuse", [False, True])
def test_scaled_plus_identity(n, reuse, rng):
    a, scale = positive_definite(n), rng.normal(size=n)
    hidden = hide_upper(a)
    before = hidden.copy()
    out = np.full((n, n), 7.0, order="F") if reuse else None
    result = linalg.scaled_plus_identity(hidden, scale, out)
    expected = np.eye(n) + np.diag(scale) @ a @ np.diag(scale)
    assert_allclose(np.tril(result), np.tril(expected), rtol=1e-13, atol=1e-13)
    assert result is out or not reuse
    assert result.flags.f_contiguous
    assert_array_equal(hidden, before)


@pytest.mark.parametrize("litter", [1e308, np.inf])
def test_litter_above_the_diagonal_raises_no_floating_point_error(litter):
    """Memory that was never written may overflow, or be infinite and meet a zero."""
    a, scale = positive_definite(5), np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    littered = hide_upper(a)
    littered[np.triu_indices(5, 1)] = litter
    with np.errstate(all="raise"):
        result = linalg.scaled_plus_identity(littered, scale)
    assert_allclose(np.tril(result), np.tril(np.eye(5) + np.diag(scale) @ a @ np.diag(scale)), rtol=1e-13)


def test_choleskys_and_products_with_vectors_are_counted_and_nothing_else_of_lower_order(rng):
    a = np.asfortranarray(positive_definite(5))
    with counted() as counts:
        factor = linalg.cholesky(a)
        linalg.cholesky_solve(factor, rng.normal(size=5))
        linalg.symmetric_product(a, rng.normal(size=(5, 2)))
        linalg.symmetric_product(a, rng.normal(size=(5, 1)))
        linalg.symmetric_product(a, rng.normal(size=5))
        linalg.triangular_product(factor, rng.normal(size=5))
        linalg.cholesky(a)
    assert counts.total == OperationCounts(cholesky=2, inverse=0, matmul=0, matvec=4)


def test_a_failed_factorization_is_counted():
    with counted() as counts, pytest.raises(linalg.NotPositiveDefiniteError):
        linalg.cholesky(-np.eye(3, order="F"))
    assert counts.total.cholesky == 1


def cholesky_change(a: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Derivative of the Cholesky factor of `a` along a symmetric change, by dense algebra."""
    L = np.linalg.cholesky(a)
    whitened = np.tril(np.linalg.solve(L, np.linalg.solve(L, change).T))
    return L @ (whitened - 0.5 * np.diag(whitened.diagonal()))


def symmetric(n: int, rng: np.random.Generator) -> np.ndarray:
    a = rng.normal(size=(n, n))
    return a + a.T


def test_the_dense_derivative_of_the_factor_is_that_of_finite_differences(rng):
    a, change = positive_definite(7), symmetric(7, rng)
    difference = np.linalg.cholesky(a + 1e-5 * change) - np.linalg.cholesky(a - 1e-5 * change)
    assert_allclose(cholesky_change(a, change), difference / 2e-5, rtol=1e-6, atol=1e-8)


@every_size
def test_cholesky_pushforward(n, rng):
    a, changes, vector = positive_definite(n), np.array([symmetric(n, rng) for _ in range(3)]), rng.normal(size=n)
    factor, given = hide_upper(np.linalg.cholesky(a)), changes.copy()
    with counted() as counts:
        result = linalg.cholesky_pushforward(factor, given, vector)
    assert_allclose(result, [cholesky_change(a, change) @ vector for change in changes], rtol=1e-8, atol=1e-9)
    assert counts.total.cubic == (3, 0, 0)
    assert_array_equal(given, changes)


@every_size
def test_cholesky_pullback_is_the_adjoint_of_the_pushforward(n, rng):
    a, vector, cotangent = positive_definite(n), rng.normal(size=n), rng.normal(size=n)
    factor = hide_upper(np.linalg.cholesky(a))
    with counted() as counts:
        bar = linalg.cholesky_pullback(factor, cotangent, vector)
    assert counts.total.cubic == (1, 0, 0)
    assert_allclose(bar, bar.T, rtol=1e-8, atol=1e-9)
    for _ in range(3):
        change = symmetric(n, rng)
        expected = cotangent @ cholesky_change(a, change) @ vector
        assert (bar * change).sum() == pytest.approx(expected, rel=1e-8, abs=1e-8)


@every_size
def test_both_triangles_of_a_symmetric_matrix(n):
    a = positive_definite(n)
    assert_array_equal(linalg.symmetrized(hide_upper(a)), np.tril(a) + np.tril(a, -1).T)


@every_size
@pytest.mark.parametrize("order", ["F", "C"])
def test_matrix_product(n, order, rng):
    a, b = positive_definite(n), np.array(rng.normal(size=(n, n)), order=order)
    before = b.copy()
    with counted() as counts:
        assert_allclose(linalg.matrix_product(hide_upper(a), b), a @ b, rtol=1e-10, atol=1e-12)
    assert counts.total.cubic == (0, 0, 1)
    assert_array_equal(b, before)


@every_size
def test_traces_of_products(n, rng):
    """The matrices need not be symmetric."""
    matrices = rng.normal(size=(3, n, n))
    expected = [[np.trace(a @ b) for b in matrices] for a in matrices]
    assert_allclose(linalg.product_traces(matrices), expected, rtol=1e-10, atol=1e-10)
