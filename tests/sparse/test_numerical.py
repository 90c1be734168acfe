"""Log-densities and gradients by calls of NumPy and LAPACK: PyTensor's own numbers."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.tensor.linalg import cholesky, solve_triangular

import pmgp
from pmgp.interface.graphs import numpy_graph
from pmgp.interface.graphs.compilation import INTERPRETED
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
    monkeypatch.setattr(numpy_graph, "_own_memory", lambda calls, results: set(results))
    careless, _ = both(large, point.copy())
    assert any(not np.allclose(wrong, right) for wrong, right in zip(careless, theirs, strict=True))


@pytest.mark.parametrize(("dist", "observed"), [(poisson, COUNTS), (probit, LABELS)])
def test_the_function_of_a_model(rng, dist, observed):
    model, _ = sparse(X[::3], dist, observed)
    step = pmgp.SparseHMC(model=model)
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
        function = pmgp.SparseHMC(model=model).function
        pm.set_data({"X": X[:4], "observed": COUNTS[4:8]})
        function.refresh_data()
    other, _ = sparse(X[::3], inputs=X[:4], observed=COUNTS[4:8])
    expected = pmgp.SparseHMC(model=other).function
    np.testing.assert_allclose(function(np.full(6, 0.3))[0], expected(np.full(6, 0.3))[0])
