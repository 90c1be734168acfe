"""Log-densities of hyper-parameters by Python's numbers and by NumPy have the values that PyTensor gives them."""

from __future__ import annotations

import pickle

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import ordered

from pmgp.interface.graphs.compilation import INTERPRETED, Compiler
from pmgp.interface.graphs.number_graph import NumberGraph
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.theta_function import NumpyFunction
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector

VECTOR = np.array([0.3, -0.7, 1.2])

GRAPHS = {
    "sums and products": lambda t: pt.add(t[0], t[1], t[2]) * pt.mul(t[0], t[1], t[2], 2.0) - t[0] / t[1],
    "logarithms": lambda t: pt.log(t[2]) + pt.log1p(t[0]) + pt.sqrt(t[2]) + pt.pow(t[2], 1.5),
    "exponentials": lambda t: pt.exp(t[0]) + pt.expm1(t[1]) + pt.tanh(t[2]) + pt.reciprocal(t[0]),
    "links": lambda t: pt.sigmoid(t[0]) + pt.softplus(t[1]) + pt.log1mexp(-pt.abs(t[2])) + pt.gammaln(pt.sqr(t[0])),
    "choices": lambda t: pt.switch(pt.or_(pt.gt(t[0], 0.0), pt.lt(t[1], 0.0)), pt.maximum(t[0], t[1]), -np.inf),
    "comparisons": lambda t: pt.switch(pt.and_(pt.ge(t[0], t[1]), pt.neq(t[0], t[2])), pt.minimum(t[0], t[2]), t[1]),
    "of a part": lambda t: pt.exp(t[1:][1]) + pt.isnan(t[0]) * 1.0,
}
EXTREME = [
    VECTOR,
    -VECTOR,
    0.0 * VECTOR,
    1e3 * VECTOR,
    -1e3 * VECTOR,
    np.array([np.inf, -np.inf, 1.0]),
    np.full(3, np.nan),
]


@pytest.mark.parametrize("name", GRAPHS)
def test_values_are_those_of_pytensor_also_where_python_raises(name):
    theta = pt.vector("theta")
    graph = GRAPHS[name](theta)
    by_numbers = pickle.loads(pickle.dumps(NumberGraph(theta, [graph])))
    for at in EXTREME:
        expected = graph.eval({theta: at}, mode="FAST_COMPILE")
        np.testing.assert_allclose(by_numbers(at), [expected], rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize(
    "graph",
    [
        lambda t: pt.exp(t).sum(),
        lambda t: pytensor.shared(1.0) * t[0],
        lambda t: pt.erfcx(t[0]),
        lambda t: t[pytensor.shared(1)],
    ],
    ids=["arrays", "data", "operation", "index"],
)
def test_what_is_no_function_of_single_numbers_is_refused(graph):
    theta = pt.vector("theta")
    with pytest.raises(UnsupportedGraphError):
        NumberGraph(theta, [graph(theta)])


def prior(settings=None, length=2) -> tuple[ThetaPrior, ThetaVector, pm.Model]:
    with pm.Model() as model:
        pm.Gamma("g", 2, 2)
        pm.HalfNormal("h")
        pm.Beta("b", 2, 3)
        pm.Dirichlet("w", np.ones(3))
        pm.Normal("cut", [-1.0, 1.0], 1.0, transform=ordered, initval=[-1.0, 1.0])
        pm.Normal("long", shape=length)
    theta = ThetaVector(model.value_vars, model.initial_point(), Compiler(settings))
    return ThetaPrior(model.logp(sum=False), theta), theta, model


def test_log_priors_are_those_of_the_model():
    by_numbers, theta, model = prior()
    assert isinstance(by_numbers._function, NumberGraph)
    logp = model.compile_logp(mode="FAST_COMPILE")
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 5.0, 30.0):
        at = scale * rng.standard_normal(theta.dimension)
        np.testing.assert_allclose(by_numbers(at), logp(theta.unravel(at)), rtol=1e-10)


def positive(settings=None) -> tuple[ThetaPrior, ThetaVector]:
    """Return the prior of log g, log h and the log-odds of b, with a parameter that has no effect."""
    with pm.Model() as model:
        pm.Gamma("g", 2, 2)
        pm.HalfNormal("h")
        pm.Beta("b", 2, 3)
        pm.Flat("flat")
    theta = ThetaVector(model.value_vars, model.initial_point(), Compiler(settings))
    return ThetaPrior(model.logp(sum=False), theta), theta


def slopes(at: np.ndarray) -> np.ndarray:
    """The gradient of the log-density above, by hand."""
    g, h, b = np.exp(at[0]), np.exp(at[1]), 1.0 / (1.0 + np.exp(-at[2]))
    return np.array([2.0 - 2.0 * g, 1.0 - h**2, 2.0 - 5.0 * b, 0.0])


def test_gradients_by_numbers():
    by_numbers, theta = positive()
    rng = np.random.default_rng(0)
    for scale in (0.0, 1.0, 5.0):
        at = scale * rng.standard_normal(theta.dimension)
        np.testing.assert_allclose(by_numbers.gradient(at), slopes(at), rtol=1e-9, atol=1e-12)
    assert by_numbers._gradient.function is None
    copy = pickle.loads(pickle.dumps(by_numbers))
    np.testing.assert_allclose(copy.gradient(at), slopes(at), rtol=1e-9, atol=1e-12)


def test_gradients_of_vectors_by_numbers():
    by_numbers, theta, model = prior()
    value = model.compile_logp(mode="FAST_COMPILE")
    at, step = 0.5 * np.random.default_rng(0).standard_normal(theta.dimension), 1e-5
    expected = [
        (value(theta.unravel(at + shift)) - value(theta.unravel(at - shift))) / (2.0 * step)
        for shift in step * np.eye(theta.dimension)
    ]
    np.testing.assert_allclose(by_numbers.gradient(at), expected, rtol=1e-7, atol=1e-7)
    assert by_numbers._gradient.function is None


@pytest.mark.parametrize("broken", [False, True])
def test_a_gradient_that_differs_from_pytensors_is_not_taken(broken, monkeypatch):
    by_numbers, theta = positive()
    right = NumberGraph.__call__
    off = {False: 0.0, True: 1e-3}[broken]
    monkeypatch.setattr(NumberGraph, "__call__", lambda self, vector: [off + value for value in right(self, vector)])
    at = np.full(theta.dimension, 0.1)
    np.testing.assert_allclose(by_numbers.gradient(at), slopes(at), rtol=1e-9, atol=1e-12)
    assert (by_numbers._gradient.function is not None) == broken


def test_the_users_mode_is_kept_for_gradients():
    compiled, theta = positive({"mode": "FAST_COMPILE"})
    at = np.full(theta.dimension, 0.1)
    np.testing.assert_allclose(compiled.gradient(at), slopes(at), rtol=1e-9, atol=1e-12)
    assert compiled._gradient.function is not None


def test_the_users_mode_is_kept():
    compiled, theta, model = prior({"mode": "FAST_COMPILE"})
    assert not isinstance(compiled._function, NumberGraph | NumpyFunction)
    at = np.full(theta.dimension, 0.1)
    assert compiled(at) == pytest.approx(model.compile_logp(mode="FAST_COMPILE")(theta.unravel(at)), rel=1e-10)


def prior_of_many(matrix: bool = True) -> tuple[ThetaPrior, ThetaVector, pm.Model]:
    """Return the prior of forty coefficients, and of a covariance matrix, which Numba compiles for ten seconds."""
    with pm.Model() as model:
        if matrix:
            pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        pm.Normal("long", np.linspace(-1.0, 1.0, 40), 1.0)
    theta = ThetaVector(model.value_vars, model.initial_point(), Compiler())
    return ThetaPrior(model.logp(sum=False), theta), theta, model


def test_matrices_and_long_vectors_are_calls_of_numpy():
    by_arrays, theta, model = prior_of_many()
    assert isinstance(by_arrays._function, NumpyFunction)
    logp, dlogp = model.compile_logp(mode=INTERPRETED), model.compile_dlogp(mode=INTERPRETED)
    rng, copy = np.random.default_rng(0), pickle.loads(pickle.dumps(by_arrays))
    for scale in (0.0, 1.0, 5.0, 30.0):
        at = scale * rng.standard_normal(theta.dimension)
        point = theta.unravel(at)
        np.testing.assert_allclose([by_arrays(at), copy(at)], 2 * [logp(point)], rtol=1e-10)
        np.testing.assert_allclose(by_arrays.gradient(at), dlogp(point), rtol=1e-9, atol=1e-9)
    assert by_arrays._gradient.function is None


def test_values_of_numpy_that_differ_from_pytensors_are_not_taken(monkeypatch):
    right = NumpyFunction.__call__
    assert isinstance(prior_of_many(matrix=False)[0]._function, NumpyFunction)
    monkeypatch.setattr(NumpyFunction, "__call__", lambda self, *at: [1e-3 + value for value in right(self, *at)])
    by_arrays, theta, model = prior_of_many(matrix=False)
    assert not isinstance(by_arrays._function, NumpyFunction)
    at = np.full(theta.dimension, 0.1)
    np.testing.assert_allclose(
        by_arrays.gradient(at), model.compile_dlogp(mode=INTERPRETED)(theta.unravel(at)), rtol=1e-9, atol=1e-9
    )
    assert by_arrays._gradient.function is not None


def test_data_that_may_change_are_read_at_each_call():
    with pm.Model() as model:
        pm.Normal("long", np.linspace(-1.0, 1.0, 40), pm.Data("scale", 1.0))
    theta = ThetaVector(model.value_vars, model.initial_point(), Compiler())
    compiled = ThetaPrior(model.logp(sum=False), theta)
    assert not isinstance(compiled._function, NumpyFunction)
    at = np.full(theta.dimension, 0.1)
    for value in (1.0, 3.0):
        pm.set_data({"scale": value}, model=model)
        assert compiled(at) == pytest.approx(model.compile_logp(mode=INTERPRETED)(theta.unravel(at)), rel=1e-10)


@pytest.mark.parametrize("kind", [np.float64, float, np.float32, np.array])
def test_a_point_is_known_by_its_numbers(kind):
    """Whatever they are kept in, a zero having two signs."""
    vector = ThetaVector([pt.dscalar("a"), pt.dvector("b")], {"a": 0.0, "b": np.zeros(2)}, Compiler())
    theta = np.array([0.5, -0.0, 2.0])
    assert vector.agrees({"a": kind(0.5), "b": np.array([0.0, 2.0]), "f": None}, theta)
    assert not vector.agrees({"a": kind(0.5), "b": np.array([0.0, np.nextafter(2.0, 3.0)])}, theta)
    assert not vector.agrees({"a": kind(0.25), "b": np.array([0.0, 2.0])}, theta)
