"""Log-densities and gradients by calls of NumPy and LAPACK: PyTensor's own numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.linalg import cholesky, solve_triangular

import pmgp
from pmgp.interface.graphs import registers
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.graphs.matrix_rewrites import ColumnSquares, RankOne, rewritten
from pmgp.interface.graphs.numerical import NumericalFunction
from tests.sparse.problems import COUNTS, LABELS, X, hyperparameters, poisson, probit, sparse


def both(build, point):
    """A function's outputs of a vector, and what PyTensor computes."""
    vector = pt.vector("vector")
    outputs = build(vector)
    expected = pytensor.function([vector], outputs, mode=INTERPRETED)(point)
    return NumericalFunction([vector], outputs)(point), expected


def assert_close(pair):
    for mine, theirs in zip(*pair, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def matrix_of(vector):
    square = vector.reshape((4, 4))
    return square @ square.T + pt.eye(4)


@pytest.mark.parametrize("lower", [True, False])
def test_triangular_solves_of_any_memory_layout(rng, lower):
    def build(vector):
        factor = cholesky(matrix_of(vector), lower=True)
        b = vector.reshape((4, 4))
        matrices = [factor, factor.T.copy()] if lower else [factor.T, factor.copy().T]
        kinds = [lower, not lower] if lower else [lower, lower]
        return [
            solve_triangular(matrix, right, lower=low)
            for matrix, low in zip(matrices, kinds, strict=True)
            for right in (b, b.T, b[:, ::2], vector[:4])
        ]

    assert_close(both(build, rng.standard_normal(16)))


def test_special_functions_and_diagonals(rng):
    def build(vector):
        functions = (pt.erf, pt.erfc, pt.erfcx, pt.gammaln, pt.psi, pt.sigmoid, pt.softplus)
        values = [function(pt.abs(vector) + 0.1) for function in functions]
        return [*values, pt.diag(vector[:3]), pt.diagonal(matrix_of(vector), offset=1), pt.argmax(vector)]

    assert_close(both(build, rng.standard_normal(16)))


def test_gradients_of_what_is_joined(rng):
    """They come from one operation with several outputs."""

    def build(vector):
        joined = pt.concatenate([vector[:3, None], pt.exp(vector[3:6, None]), vector[6:9, None] ** 2], axis=1)
        return [pt.grad((joined * joined.T).sum(), vector)]

    assert_close(both(build, rng.standard_normal(16)))


def test_what_is_not_positive_definite_is_not_a_number():
    vector = pt.vector("vector")
    factor = cholesky(pt.outer(vector, vector) - pt.eye(3))
    assert np.isnan(NumericalFunction([vector], [factor.sum()])(np.zeros(3))[0])


def large(vector):
    """Views of arrays that are needed after what they show would have been overwritten, and arrays used twice."""
    outer = pt.outer(vector, vector)
    square = pt.exp(outer)
    turned, part = square.T, square[::2, 3:]
    return [pt.sin(square).sum() + pt.dot(turned, vector).sum(), pt.cos(part).sum(), square * square + turned, turned]


def test_memory_is_reused_only_where_nobody_else_looks(rng, monkeypatch):
    point = 0.1 * rng.standard_normal(200)
    mine, theirs = both(large, point.copy())
    assert_close((mine, theirs))
    monkeypatch.setattr(registers, "_own_memory", lambda calls, results: set(results))
    careless, _ = both(large, point.copy())
    assert any(not np.allclose(wrong, right) for wrong, right in zip(careless, theirs, strict=True))


def folded(vector):
    """Sums and products of several matrices, some of which are needed again, and solves in the place of both."""
    square = pt.exp(pt.outer(vector, vector))
    column, row = pt.cos(vector)[:, None], pt.sin(vector)[None, :]
    product = square * column * pt.sqrt(square) * row
    total = pt.clip(square + column + product + row, 0.5, 30.0)
    factor = pt.linalg.cholesky(pt.eye(200) + pt.outer(vector, vector))
    solved = solve_triangular(factor, total + square * row, lower=True)
    back = solve_triangular(factor, pt.sin(solved), lower=True, trans="T")
    return [solved.sum(axis=1), back.sum(), (product * solved * row * pt.ge(square, 1.0)).sum()]


@pytest.mark.parametrize("rearranged", [False, True])
def test_large_matrices_are_overwritten_and_their_memory_kept_without_harm(rng, rearranged):
    vector = pt.vector("vector")
    outputs = folded(vector)
    theirs = pytensor.function([vector], outputs, mode=INTERPRETED)
    mine = NumericalFunction([vector], outputs, rearranged)
    size = len(pickle.dumps(mine))
    for point in 0.3 * rng.standard_normal((3, 200)):
        assert_close((mine(point), theirs(point)))
    again = pickle.loads(pickle.dumps(mine))
    assert len(pickle.dumps(mine)) == size
    assert_close((again(point), theirs(point)))


def test_memory_is_kept_only_where_nobody_looks_at_it_afterwards(rng, monkeypatch):
    """Outputs, and views of matrices among these, stay what they were at the next call."""
    points = 0.1 * rng.standard_normal((2, 200))

    def first_after_second():
        vector = pt.vector("vector")
        outer = pt.exp(pt.outer(vector, vector))
        function = NumericalFunction([vector], [outer, pt.sin(pt.outer(vector, vector)).T[3:]])
        first = function(points[0])
        before = [part.copy() for part in first]
        function(points[1])
        return [np.array_equal(*pair) for pair in zip(first, before, strict=True)]

    assert first_after_second() == [True, True]
    careless = registers._inner_matrices
    monkeypatch.setattr(
        registers, "_inner_matrices", lambda calls, results, begun, outputs: careless(calls, results, begun, ())
    )
    assert first_after_second() == [False, False]


def passes(vector):
    """What rearranging knows: products that have matrices in common, sums of squares, a product of two vectors."""
    first = pt.exp(pt.outer(vector, vector))
    second, mask = pt.cos(first), pt.ge(first, 1.0)
    column, row = pt.cos(vector)[:, None], pt.sin(vector)[None, :]
    products = [mask * first * second, first * second, first * mask * vector[0] * second * row]
    return [product.sum() for product in products] + [pt.square(second).sum(axis=0), (first + column * row).sum(axis=1)]


def test_fewer_passes_over_large_matrices_give_the_same(rng):
    point = 0.3 * rng.standard_normal(200)
    vector = pt.vector("vector")
    outputs = passes(vector)
    expected = pytensor.function([vector], outputs, mode=INTERPRETED)(point)
    functions = [NumericalFunction([vector], outputs, rearranged) for rearranged in (False, True)]
    for function in functions:
        assert_close((function(point), expected))
    in_order, rearranged = [function._graph._calls for function in functions]
    assert len(rearranged) < len(in_order)
    graph = rewritten([vector.sum(), *outputs], rearranged=True)
    kinds = [type(node.op) for node in io_toposort([vector], graph)]
    assert ColumnSquares in kinds
    assert RankOne in kinds
    np.testing.assert_allclose(pytensor.function([vector], graph[1:], mode=INTERPRETED)(point)[-1], expected[-1])


@pytest.mark.parametrize(("dist", "observed"), [(poisson, COUNTS), (probit, LABELS)])
def test_the_function_of_a_model(rng, dist, observed):
    model, _ = sparse(X[::3], dist, observed)
    step = pmgp.steps.SparseHMC(model=model)
    theirs = model.logp_dlogp_function(ravel_inputs=True, mode=INTERPRETED)
    theirs.set_extra_values({})
    for _ in range(3):
        point = rng.standard_normal(step.dimension)
        value, gradient = step.function(point)
        expected, slopes = theirs(point)
        np.testing.assert_allclose(value, expected, rtol=1e-12)
        np.testing.assert_allclose(gradient, slopes, rtol=1e-9, atol=1e-10)
    again = pickle.loads(pickle.dumps(step.function))
    np.testing.assert_array_equal(again(point)[1], gradient)


def test_data_are_read_again():
    with pm.Model() as model:
        inputs, observed = pm.Data("X", X), pm.Data("observed", COUNTS)
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=inputs, Xu=X[::3], jitter=1e-10)
        process.observe("y", f, dist=poisson, observed=observed)
        function = pmgp.steps.SparseHMC(model=model).function
        pm.set_data({"X": X[:4], "observed": COUNTS[4:8]})
        function.refresh_data()
    other, _ = sparse(X[::3], inputs=X[:4], observed=COUNTS[4:8])
    expected = pmgp.steps.SparseHMC(model=other).function
    np.testing.assert_allclose(function(np.full(6, 0.3))[0], expected(np.full(6, 0.3))[0])
