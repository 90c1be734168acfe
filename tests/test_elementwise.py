"""Terms of a likelihood, written as elementwise functions, are the terms; and draws of f do not touch each other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import ordered
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, io_toposort

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.theta_function import NumpyFunction
from pmgp.interface.graphs.unrolling import NotElementwiseError, elementwise, unrolled_sum
from pmgp.interface.graphs.unrolling.bounds import always_holds
from pmgp.interface.model import graph_likelihood
from pmgp.interface.model.graph_likelihood import compile_likelihood
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.model.theta_vector import ThetaVector

N = 30
RNG = np.random.default_rng(7)
COUNTS = RNG.integers(0, 6, N)
LABELS = RNG.integers(0, 2, N)
REAL = RNG.normal(size=N)
POSITIVE = RNG.gamma(2.0, 1.0, N) + 0.1
PROPORTIONS = RNG.beta(2.0, 2.0, N)
CATEGORIES = RNG.integers(0, 3, N)
Z = RNG.normal(size=(N, 3))
WIDE = RNG.normal(size=(N, 20))
GROUPS = RNG.integers(0, 4, N)


def cut_points() -> Any:
    return pm.Normal("cut", [-1.0, 1.0], 1.0, transform=ordered, initval=[-1.0, 1.0])


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "bernoulli": lambda f: pm.Bernoulli("y", logit_p=f, observed=LABELS),
    "poisson": lambda f: pm.Poisson("y", pm.math.exp(f), observed=COUNTS),
    "exposure": lambda f: pm.Poisson("y", POSITIVE * pm.math.exp(f), observed=COUNTS),
    "negative binomial": lambda f: pm.NegativeBinomial(
        "y", mu=pm.math.exp(f), alpha=pm.Gamma("a", 2, 1), observed=COUNTS
    ),
    "binomial": lambda f: pm.Binomial("y", n=COUNTS + 2, logit_p=f, observed=COUNTS),
    "student": lambda f: pm.StudentT("y", nu=4, mu=f, sigma=pm.HalfNormal("s"), observed=REAL),
    "gamma": lambda f: pm.Gamma("y", alpha=2.0, beta=pm.math.exp(f), observed=POSITIVE),
    "beta": lambda f: pm.Beta("y", mu=pm.math.sigmoid(f), nu=pm.Gamma("nu", 2, 1), observed=PROPORTIONS),
    "weibull": lambda f: pm.Weibull("y", alpha=1.5, beta=pm.math.exp(f), observed=POSITIVE),
    "ordered logistic": lambda f: pm.OrderedLogistic("y", eta=f, cutpoints=cut_points(), observed=CATEGORIES),
    "ordered probit": lambda f: pm.OrderedProbit("y", eta=f, cutpoints=cut_points(), observed=CATEGORIES),
    "zero inflated": lambda f: pm.ZeroInflatedPoisson("y", psi=pm.Beta("p", 1, 1), mu=pm.math.exp(f), observed=COUNTS),
    "zero inflated negative binomial": lambda f: pm.ZeroInflatedNegativeBinomial(
        "y", psi=0.7, mu=pm.math.exp(f), alpha=2.0, observed=COUNTS
    ),
    "hurdle": lambda f: pm.HurdleGamma("y", psi=0.7, alpha=2.0, beta=pm.math.exp(f), observed=POSITIVE * LABELS),
    "mixture": lambda f: pm.NormalMixture(
        "y", w=pm.Dirichlet("w", np.ones(2)), mu=pt.stack([f, 0.0 * f], axis=-1), sigma=1.0, observed=REAL
    ),
    "fixed effects": lambda f: pm.Bernoulli("y", logit_p=f + Z @ pm.Normal("beta", shape=3), observed=LABELS),
    "many effects": lambda f: pm.Bernoulli("y", logit_p=f + WIDE @ pm.Normal("beta", shape=20), observed=LABELS),
    "groups": lambda f: pm.Normal("y", f + pm.Normal("b", shape=4)[GROUPS], 1.0, observed=REAL),
    "some observations": lambda f: pm.Normal("y", f[::-1][: N // 2], 1.0, observed=REAL[: N // 2]),
    "chosen observations": lambda f: pm.Normal("y", f[np.arange(40) ** 2 % N], 1.0, observed=RNG.normal(size=40)),
    "masked observations": lambda f: pm.Normal("y", f[REAL > 0.0], 1.0, observed=REAL[REAL > 0.0]),
    "two classes": lambda f: pm.Categorical(
        "y", p=pm.math.softmax(pt.stack([f, 0.0 * f], axis=-1), axis=-1), observed=LABELS
    ),
    "censored": lambda f: pm.Censored(
        "y", pm.Normal.dist(f, 1.0), lower=-1.0, upper=None, observed=np.maximum(REAL, -1.0)
    ),
    "restricted mean": lambda f: pm.Poisson("y", f + 1.5, observed=COUNTS),
}


def parts(likelihood: Callable[[Any], Any]) -> tuple[LatentGaussianModel, Any]:
    """Value variables of a model, and the graphs of its terms, without compiling anything."""
    with pm.Model() as model:
        f = pm.MvNormal("f", mu=np.zeros(N), cov=np.eye(N))
        likelihood(f)
    latent = model.rvs_to_values[f]
    terms = [term for term in model.logp(sum=False) if latent in set(ancestors([term])) and term.name != "f_logprob"]
    theta = [model.rvs_to_values[rv] for rv in model.free_RVs if rv is not f]
    values = [np.asarray(model.initial_point()[value.name], dtype=float) + 0.1 for value in theta]
    [term] = [term for term in terms if "y" in (term.name or "y")]
    return latent, term, theta, values


def function_of(graph, latent, theta, values):
    function = Compiler()([latent, *theta], [graph], interpreted=True)
    return lambda f: function(f, *values)[0]


def evaluated(graph, latent, theta, values, f):
    return function_of(graph, latent, theta, values)(f)


@cache
def case_of(name: str) -> tuple[tuple[Any, ...], Callable[[np.ndarray], np.ndarray]]:
    """The parts of a model, and its terms as a function of f, which several tests compare with."""
    known = latent, term, theta, values = parts(ELEMENTWISE[name])
    return known, function_of(term, latent, theta, values)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_terms_are_the_terms(name):
    (latent, term, theta, values), terms = case_of(name)
    new = function_of(elementwise(term, latent), latent, theta, values)
    for f in RNG.normal(size=(4, N)):
        f = np.abs(f) if name == "restricted mean" else f
        expected = terms(f)
        np.testing.assert_allclose(new(f), expected, rtol=1e-10, atol=1e-12)
        assert np.isfinite(expected).any()


class FunctionsAt:
    """Makes functions of (inputs, theta) for theta as one vector that is ignored."""

    def __init__(self, theta, values, numpy):
        self.theta, self.values, self.numpy = theta, values, numpy

    def compile(self, inputs, outputs, interpreted=False):
        function = Compiler()([*inputs, *self.theta], outputs, interpreted=True)
        return lambda *arguments: function(*arguments[:-1], *self.values)

    def by_numpy(self, inputs, outputs):
        replaced = graph_replace(
            outputs, dict(zip(self.theta, map(pt.constant, self.values), strict=True)), strict=False
        )
        vector = ThetaVector([], {}, Compiler())
        return vector.by_numpy(inputs, replaced) if self.numpy else None


# Whether NumPy computes the rows, and whether these are unrolled: likelihoods take turns, and the one whose domain some
# rows leave has each.
WAYS = [(True, True), (True, False), (False, True)]
TURNS = [(name, *WAYS[place % 3]) for place, name in enumerate(ELEMENTWISE) if name != "restricted mean"]


@pytest.mark.parametrize(("name", "numpy", "unrolled"), [*TURNS, *(("restricted mean", *way) for way in WAYS)])
def test_rows_of_f_are_evaluated_independently(name, unrolled, numpy, monkeypatch):
    """Also where PyTensor would let one f that is outside of a parameter's domain make all the others impossible."""
    (latent, term, theta, values), terms = case_of(name)
    if not unrolled:
        monkeypatch.setattr(graph_likelihood, "elementwise", refused)
    at = np.linspace(0.0, 1.0, N), np.empty(0)
    functions = compile_likelihood(["y"], [term], latent, FunctionsAt(theta, values, numpy), at)
    f = np.vstack([np.abs(RNG.normal(size=(2, N))), RNG.normal(0.0, 4.0, size=(2, N))])
    together = functions.terms.flat(f, np.empty(0)).sum(axis=1)
    apart = [terms(one).sum() for one in f]
    np.testing.assert_allclose(together, apart, rtol=1e-10)


def refused(term, latent):
    raise NotElementwiseError


@pytest.mark.parametrize("wrong", [lambda term: 1.001 * term, lambda term: pt.switch(pt.arange(N) < 1, -np.inf, term)])
@pytest.mark.parametrize("numpy", [True, False])
def test_what_is_unrolled_wrongly_is_not_used(wrong, numpy, monkeypatch):
    latent, term, theta, values = parts(ELEMENTWISE["poisson"])
    monkeypatch.setattr(graph_likelihood, "elementwise", lambda term, latent: wrong(elementwise(term, latent)))
    f = np.linspace(-1.0, 1.0, N)
    functions = compile_likelihood(["y"], [term], latent, FunctionsAt(theta, values, numpy), (f, np.empty(0)))
    expected = evaluated(term, latent, theta, values, f)
    np.testing.assert_allclose(functions.terms.flat(f[None, :], np.empty(0))[0], expected, rtol=1e-12)


def test_an_observation_outside_of_its_domain_leaves_the_others_alone():
    latent, term, theta, values = parts(ELEMENTWISE["restricted mean"])
    f = np.zeros(N)
    f[3] = -2.0
    got = evaluated(elementwise(term, latent), latent, theta, values, f)
    assert got[3] == -np.inf
    assert np.isfinite(np.delete(got, 3)).all()


@pytest.mark.parametrize(
    "mixed",
    [lambda f: RNG.normal(size=(N, N)) @ f, lambda f: f + f.sum(), lambda f: f + f[0], pt.cumsum],
    ids=["product", "sum", "one", "cumulative"],
)
def test_what_mixes_observations_is_not_elementwise(mixed):
    latent, term, _, _ = parts(lambda f: pm.Normal("y", mixed(f), 1.0, observed=REAL))
    with pytest.raises(NotElementwiseError):
        elementwise(term, latent)


def test_importance_weights_of_draws_beside_an_impossible_one():
    with pm.Model() as model:
        s = pm.Gamma("s", 2.0, 2.0)
        f = pm.MvNormal("f", mu=np.zeros(N), cov=s * np.eye(N))
        pm.Poisson("y", f + 1.5, observed=COUNTS)
    likelihood = take_apart(model).likelihood(np.zeros(1))
    rows = np.abs(RNG.normal(size=(3, N)))
    rows[1, 0] = -2.0
    np.testing.assert_allclose(likelihood.log_likelihood(rows), [likelihood.log_likelihood(row) for row in rows])
    assert np.isfinite(likelihood.log_likelihood(rows)).tolist() == [True, False, True]


def test_the_sum_of_terms_is_that_of_their_elements():
    """The sum may have any shape, and be unrolled, too long to be unrolled, or impossible to unroll."""
    theta = pt.vector("theta", shape=(3,))
    long = np.linspace(0.0, 1.0, 40)
    terms = [
        pt.exp(theta),
        theta[0] * theta[1],
        pt.outer(theta, theta),
        theta[2] * long,
        pt.outer(theta[1] * long, theta[0] * long),
        pt.sort(theta)[:2],
    ]
    at = {theta: np.array([0.3, -0.2, 0.9])}
    expected = sum(term.sum().eval(at, mode="FAST_COMPILE") for term in terms)
    assert unrolled_sum(terms).eval(at, mode="FAST_COMPILE") == pytest.approx(expected, rel=1e-13)
    assert unrolled_sum([]).eval() == 0.0
    kinds = {type(node.op).__name__ for node in io_toposort([theta], [unrolled_sum([pt.cumsum(pt.exp(theta))])])}
    assert not kinds & {"CumOp", "Join"}


def test_logs_of_sums_stay_stable_however_they_are_written():
    """Far up and far down, and the stable form is not made stable again."""
    latent, at = pt.vector("f"), np.linspace(-1.0, 1.0, N)
    written = [
        pt.logaddexp(latent, 2.0 * latent),
        pt.log(pt.exp(latent) + pt.exp(2.0 * latent)),
        pt.log(pt.exp(pt.stack([latent, 2.0 * latent])).sum(axis=0)),
    ]
    f = np.stack([1000.0 * at, 300.0 * at])
    for term in written:
        functions = compile_likelihood(["y"], [term], latent, FunctionsAt([], [], True), (at, np.empty(0)))
        evaluate = functions.terms._evaluate
        assert isinstance(evaluate, NumpyFunction)
        np.testing.assert_allclose(evaluate(f, np.empty(0))[0], np.logaddexp(f, 2.0 * f), rtol=1e-12)
        assert len(evaluate._graph._calls) <= 12


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (lambda x: pt.exp(x) >= 0, True),
        (lambda x: pt.sigmoid(x) <= 1, True),
        (lambda x: 1.0 - pt.sigmoid(x) <= 1, True),
        (lambda x: pt.sigmoid(x)[None] - pt.sigmoid(2.0 * x)[None] >= -1, True),
        (lambda x: pt.softplus(x) >= np.array([-1.0, 0.0]), True),
        (lambda x: pt.second(x, pt.sqr(x)) >= 0, True),
        (lambda x: pt.sigmoid(x) - pt.sigmoid(2.0 * x) >= 0, False),
        (lambda x: pt.exp(x) > 0, False),
        (lambda x: pt.exp(x) - pt.exp(2.0 * x) <= 0, False),
        (lambda x: pt.exp(x) >= np.array([0.0, np.nan]), False),
        (lambda x: pt.exp(x) >= np.array([-1.0, 1.0]), False),
        (lambda x: x >= 0, False),
        (lambda x: pt.exp(x) <= 0, False),
    ],
)
def test_a_check_is_left_out_only_if_it_always_holds(condition, holds):
    assert always_holds(condition(pt.vector("x"))) is holds
