"""Graphs by calls of NumPy have the values that PyTensor gives them."""

from __future__ import annotations

import pickle

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.rewriting.utils import rewrite_graph

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_graph import NumpyGraph
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.theta_function import NumpyFunction, ThetaFunction

THETA = np.array([0.3, -0.7, 1.2])
X = np.random.default_rng(0).normal(size=(5, 3))

GRAPHS = {
    "sum of three": lambda t, x: pt.add(t[0], t[1], t[2] * x),
    "product of three": lambda t, x: pt.mul(t[0], t[1], x),
    "dropped and added axes": lambda t, x: t[:1].dimshuffle("x", "x") * x,
    "axes in another order": lambda t, x: (t * x).T[None, :, :].dimshuffle(2, "x", 1, 0),
    "a dropped axis of a transpose": lambda t, x: (t[:, None] * x[:1].T).dimshuffle("x", 0),
    "a part": lambda t, x: (t * x)[1:4:2, -1],
    "a part up to an index that is computed": lambda t, x: (t * x)[: pt.argmax(x[0])],
    "a part up to one that moves": lambda t, x: x[: pt.cast(pt.abs(3.0 * t[1]), "int64"), pt.cast(t[2], "int64")],
    "a part set up to one that moves": lambda t, x: pt.set_subtensor(
        (t * x)[: pt.cast(pt.abs(3.0 * t[1]), "int64")], t
    ),
    "a part set": lambda t, x: pt.set_subtensor((t * x)[1:3], t[1]),
    "a part increased": lambda t, x: pt.inc_subtensor((t * x)[1:3], t[1]),
    "a part set in what is fixed": lambda t, x: pt.set_subtensor((2.0 * x)[1:3], t),
    "chosen elements": lambda t, x: (t * x)[np.array([3, 0, 3])],
    "chosen elements of both axes": lambda t, x: (t * x)[np.array([3, 0]), np.array([1, 1])] + t[0],
    "chosen columns of some rows": lambda t, x: pt.exp((t * x)[1:, np.array([2, 0])]),
    "elements chosen by a mask": lambda t, x: (t * x)[X > 0.0],
    "elements at indices that are computed": lambda t, x: x[pt.cast(pt.abs(t), "int64")],
    "chosen elements set": lambda t, x: pt.set_subtensor((t * x)[np.array([3, 0])], pt.exp(t)),
    "chosen elements set in what is fixed": lambda t, x: pt.set_subtensor(x[np.array([3, 0])], t),
    "chosen elements increased, one of them twice": lambda t, x: pt.inc_subtensor((t * x)[np.array([3, 0, 3])], t),
    "numbers in order": lambda t, x: pt.arange(t.shape[0]) * t,
    "numbers up to one that is computed": lambda t, x: pt.arange(t.shape[0] * 2 - 1) * t[0],
    "numbers up to one of scalars": lambda t, x: (
        pt.arange(pt.scalar_from_tensor(t.shape[0]) + pt.scalar_from_tensor(x.shape[0])) * t[0]
    ),
    "ordered": lambda t, x: pt.cumsum(pt.concatenate([t[:1], pt.exp(t[1:])])),
    "cumulative product": lambda t, x: pt.cumprod(t * x, axis=1),
    "sum over an axis": lambda t, x: pt.sum(pt.sqr(t * x), axis=1),
    "sum over all": lambda t, x: pt.sum(t * x),
    "largest": lambda t, x: pt.max(t * x, axis=0),
    "joined": lambda t, x: pt.join(1, t[:, None], x[:3], pt.ones_like(x[:3])),
    "one of several parts": lambda t, x: pt.split(t * x, np.array([1, 2]), n_splits=2, axis=1)[1],
    "several parts": lambda t, x: pt.add(
        *[pt.exp(part) for part in pt.split(t * x, np.array([2, 1, 2]), n_splits=3)][::2]
    ),
    "filled": lambda t, x: pt.second(x, t[0]),
    "a vector of numbers": lambda t, x: pt.stack([t[2], pt.exp(t[0]), x[0, 0]]),
    "product with a vector": lambda t, x: pt.dot(x, t),
    "product of matrices": lambda t, x: pt.dot(t * x, x.T),
    "repeated": lambda t, x: pt.full((4, t.shape[0] - 1), t[0]),
    "another shape": lambda t, x: (t * x).reshape((3, -1)),
    "a shape that is computed": lambda t, x: (t * x).reshape((t.shape[0], x.shape[0])),
    "chosen elements increased once": lambda t, x: pt.inc_subtensor(
        (t * x)[np.array([3, 0, 3])], 1.0, ignore_duplicates=True
    ),
    "shape": lambda t, x: t / t.shape[0],
    "limited": lambda t, x: pt.clip(t * x, 0.0, np.inf),
    "chosen": lambda t, x: pt.switch(pt.gt(t * x, 0.0), t, x),
}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("shared", [False, True], ids=["constant", "shared"])
def test_values_are_those_of_pytensor(name, rewritten, shared):
    theta = pt.vector("theta")
    output = GRAPHS[name](theta, pytensor.shared(X) if shared else pt.constant(X))
    if rewritten:
        output = rewrite_graph(output, include=("canonicalize", "stabilize", "specialize"))
    expected = output.eval({theta: THETA}, mode="FAST_COMPILE")
    graph = NumpyGraph([theta], [output])
    fixed, at = [variable.eval(mode="FAST_COMPILE") for variable in graph.fixed], THETA.copy()
    kept = [np.copy(value) for value in fixed]
    [found] = pickle.loads(pickle.dumps(graph))(fixed, at)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    for value, before in zip([*fixed, at], [*kept, THETA], strict=True):
        np.testing.assert_array_equal(value, before)


def test_the_unsupported_is_named():
    theta = pt.vector("theta")
    with pytest.raises(UnsupportedGraphError, match=r"(?i)round"):
        NumpyGraph([theta], [pt.round(theta, mode="half_away_from_zero")])
    with pytest.raises(UnsupportedGraphError, match="Sort"):
        NumpyGraph([theta], [pt.sort(theta)])
    with pytest.raises(UnsupportedGraphError, match="lengths"):
        NumpyGraph([theta], pt.split(theta, pytensor.shared(np.array([1, 2])), n_splits=2))


@pytest.mark.parametrize("compiled", [False, True])
def test_resting_and_moving_outputs_keep_their_order(compiled):
    theta, data = pt.vector("theta"), pytensor.shared(X)
    outputs = [data * 2.0, pt.exp(theta), data.sum(axis=0), theta * data]
    function = ThetaFunction(theta, outputs, Compiler(), whole=outputs[3:] if compiled else ())
    assert isinstance(function._function, NumpyGraph) is not compiled
    for X_now in (X, X + 1.0):
        data.set_value(X_now)
        function.refresh_data()
        expected = [2.0 * X_now, np.exp(THETA), X_now.sum(axis=0), THETA * X_now]
        for found, value in zip(function(THETA), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-14)


def test_what_numpy_has_not_is_compiled():
    theta = pt.vector("theta")
    graph = pt.round(pt.exp(theta), mode="half_away_from_zero")
    function = ThetaFunction(theta, [graph], Compiler())
    assert not isinstance(function._function, NumpyGraph)
    np.testing.assert_allclose(function(THETA)[0], graph.eval({theta: THETA}, mode="FAST_COMPILE"), rtol=1e-12)
    with pytest.raises(UnsupportedGraphError, match="Round"):
        ThetaFunction(theta, [graph], Compiler(), compiled=False)


OPERATIONS = {
    "gammaln": lambda x: pt.gammaln(pt.abs(x) + 1.0),
    "digamma": lambda x: pt.psi(pt.abs(x) + 1.0),
    "trigamma": lambda x: pt.tri_gamma(pt.abs(x) + 1.0),
    "sigmoid": pt.sigmoid,
    "softplus": pt.softplus,
    "log1mexp": lambda x: pt.log1mexp(-pt.abs(x) - 1e-3),
    "erfcx": pt.erfcx,
    "cast": lambda x: pt.cast(x, "int64"),
    "logarithm of small integers": lambda x: pt.log(pt.cast(pt.abs(x), "int8") + pt.constant(3, dtype="int8")) * x,
    "power": lambda x: pt.pow(pt.abs(x), 1.5),
}
FAR = np.concatenate([np.linspace(-40.0, 40.0, 33), [-800.0, 800.0, np.inf, -np.inf, np.nan]])


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations_are_those_of_pytensor_far_into_both_tails(name):
    x = pt.vector("x")
    at = FAR[np.isfinite(FAR)] if "cast" in name or "integers" in name else FAR
    at = at[np.abs(at) < 100.0] if name in ("erfcx", "logarithm of small integers") else at
    graph = OPERATIONS[name](x)
    with np.errstate(all="ignore"):
        [found] = NumpyGraph([x], [graph])([v.eval(mode="FAST_COMPILE") for v in NumpyGraph([x], [graph]).fixed], at)
    np.testing.assert_allclose(found, graph.eval({x: at}, mode="FAST_COMPILE"), rtol=1e-12, atol=1e-300)


def test_registers_used_again_change_neither_inputs_nor_what_is_fixed_nor_each_other():
    """A value that is taken twice, a view of one that is, an output that others are made of, and constants."""
    x, data = pt.vector("x"), pt.constant(X[:, 0])
    doubled = 2.0 * x + data
    column = doubled[:, None]
    outputs = [pt.exp(doubled), doubled, pt.sqr(doubled) - doubled, (column * pt.exp(column)).sum(axis=1), data + x]
    graph = NumpyGraph([x], outputs)
    fixed = [variable.eval(mode="FAST_COMPILE") for variable in graph.fixed]
    at = X[:, 1].copy()
    kept = [np.copy(value) for value in fixed]
    expected = [output.eval({x: at}, mode="FAST_COMPILE") for output in outputs]
    for _ in range(2):
        for found, value in zip(graph(fixed, at), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=1e-14)
    np.testing.assert_array_equal(at, X[:, 1])
    for value, before in zip(fixed, kept, strict=True):
        np.testing.assert_array_equal(value, before)


@pytest.mark.parametrize("static", [False, True])
def test_functions_of_numpy_follow_theta_and_the_data(static):
    """Also where an output does not depend on the inputs, which the caller may change without harm."""
    theta, x, data = pt.vector("theta"), pt.vector("x", shape=(5,) if static else (None,)), pytensor.shared(X[:, 0])
    outputs = [pt.gammaln(pt.exp(theta[0])) * x + data, theta[1] * data, data * 2.0, x.reshape((data.shape[0] // 5, 5))]
    at = X[:, 2].copy()
    function = NumpyFunction([x], theta, outputs, Compiler())
    for data_now in (X[:, 0], X[:, 1]):
        data.set_value(data_now)
        function.refresh_data()
        for theta_now in (THETA, -THETA, 2.0 * THETA, THETA):
            expected = [
                o.eval({theta: theta_now, x: at}, mode="FAST_COMPILE", on_unused_input="ignore") for o in outputs
            ]
            found = pickle.loads(pickle.dumps(function))(at, theta_now)
            for one, value in zip(function(at, theta_now), expected, strict=True):
                np.testing.assert_allclose(one, value, rtol=1e-14)
                one[:] = np.nan
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-14)
    np.testing.assert_array_equal(at, X[:, 2])
