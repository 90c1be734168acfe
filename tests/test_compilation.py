"""What is compiled when, and what is said of it."""

from __future__ import annotations

import gc
import logging
import pickle
import subprocess
import sys
from functools import partial
from time import sleep

import numpy as np
import pymc as pm
import pytensor.scalar as ps
import pytensor.tensor as pt
import pytest
import scipy.special
from pytensor.link.c.op import COp
from pytensor.tensor.special import log_softmax, logsumexp, softmax

import pmgp
from pmgp.interface.graphs.compilation import (
    INTERPRETED,
    CompiledOnRequest,
    CompiledWhenCalled,
    Compiler,
    announced,
    making_graphs,
)
from pmgp.interface.graphs.theta_function import NumpyFunction
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.likelihood_terms import BLOCK
from pmgp.interface.model.taking_apart import take_apart


def test_interpreted_functions_are_the_compiled_ones():
    x = pt.vector("x")
    graph = pt.log1p(pt.exp(x)).sum() + pt.gammaln(pt.abs(x) + 1.0).sum()
    values = np.linspace(-3.0, 3.0, 7)
    compiled, interpreted = (Compiler()([x], [graph], how)(values)[0] for how in (False, True))
    np.testing.assert_allclose(interpreted, compiled, rtol=1e-14)
    np.testing.assert_allclose(Compiler().as_written([x], [graph])(values)[0], compiled, rtol=1e-14)


def test_a_scalar_is_summed_as_it_is_written():
    x = pt.dscalar("x")
    values = Compiler().as_written([x], [x.sum(axis=-1), (x > 0.0).sum(axis=-1)])(np.asarray(2.5))
    assert [(value.ndim, float(value)) for value in values] == [(0, 2.5), (0, 1.0)]


def test_elements_are_clipped_together(monkeypatch):
    """PyTensor's own way calls a function for each element, a minute for the squared distances of 20,000 points."""
    monkeypatch.delattr(ps.Clip, "impl")
    x = pt.vector("x")
    values = np.array([-2.0, 0.5, 3.0, np.nan])
    for compiled in (Compiler().as_written, partial(Compiler(), interpreted=True)):
        within, crossed = compiled([x], [pt.clip(x, 0.0, 1.0), pt.clip(x, 1.0, 0.0)])(values)
        np.testing.assert_array_equal(within, [0.0, 0.5, 1.0, np.nan])
        np.testing.assert_array_equal(crossed, [1.0, 1.0, 0.0, np.nan])


SEARCHED = """
import numpy as np
import pymc as pm
import pmgp

X = np.linspace(0.0, 1.0, 20)[:, None]
with pmgp.models.classifier(X, X[:, 0] > 0.5):
    pm.sample(2, tune=2, chains=1, cores=1, step=pmgp.PseudoMarginal(), progressbar=False, quiet=True)
with pm.Model():
    gp = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=pm.Gamma("lengthscale", 2, 2)))
    f = gp.prior("f", X=X, Xu=X[::5])
    gp.observe("y", f, dist=lambda f: pm.Bernoulli.dist(logit_p=f), observed=X[:, 0] > 0.5)
    pmgp.steps.SparseGibbs()
"""


def test_no_compiler_of_c_looks_for_blas():
    """PyTensor would warn that there is none, though this package makes no use of it."""
    done = subprocess.run([sys.executable, "-c", SEARCHED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "BLAS" not in done.stderr


@pytest.mark.parametrize("collecting", [True, False])
def test_the_collector_is_as_it_was_after_graphs_are_made(collecting):
    (gc.enable if collecting else gc.disable)()
    try:
        with making_graphs():
            with making_graphs():
                x = pt.exp(pt.vector("x"))
            assert not gc.isenabled()
        assert gc.isenabled() == collecting
        with pytest.raises(ValueError, match="refused"):
            _fail_while_making_graphs()
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
    assert x.tag.trace == []


def _fail_while_making_graphs():
    with making_graphs():
        raise ValueError("refused")


def test_nothing_is_rewritten_where_graphs_are_computed_as_they_are_written():
    """The logarithm of one plus a small number is zero, where a rewrite would know better."""
    x = pt.vector("x")
    small = np.full(2, 1e-20)
    rewritten, written = (make([x], [pt.log(1.0 + x)])(small)[0] for make in (Compiler(), Compiler().as_written))
    np.testing.assert_allclose(rewritten, small)
    np.testing.assert_array_equal(written, 0.0)


@pytest.mark.parametrize("number", [31, 32, 70, 1000])
@pytest.mark.parametrize("operation", [pt.add, pt.mul])
def test_sums_of_many_terms_are_interpreted(operation, number):
    """NumPy's own functions take 32 operands."""
    x = pt.vector("x")
    values = 1.0 + np.random.default_rng(0).normal(size=number) / number
    graph = operation(*[x[place] for place in range(number)])
    expected = {pt.add: np.sum, pt.mul: np.prod}[operation](values)
    for function in (Compiler()([x], [graph], interpreted=True), Compiler().as_written([x], [graph])):
        np.testing.assert_allclose(function(values)[0], expected, rtol=1e-13)


@pytest.mark.parametrize("graph", [softmax, log_softmax, logsumexp, lambda x: pt.exp(x) / pt.exp(x).sum()])
def test_no_graph_within_the_graph_calls_a_c_compiler(graph, monkeypatch):
    x = pt.vector("x")

    def refused(*args, **kwargs):
        raise AssertionError("made for C")

    monkeypatch.setattr(COp, "make_c_thunk", refused)
    values = np.linspace(-3.0, 3.0, 7)
    logs = values - scipy.special.logsumexp(values)
    expected = {log_softmax: logs, logsumexp: scipy.special.logsumexp(values)}.get(graph, np.exp(logs))
    for function in (Compiler()([x], [graph(x)], interpreted=True), Compiler().as_written([x], [graph(x)])):
        [found] = pickle.loads(pickle.dumps(function))(values)
        np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_the_users_mode_takes_precedence():
    x = pt.vector("x")
    function = Compiler({"mode": "FAST_COMPILE"})([x], [x.sum()], interpreted=True)
    assert function.maker.mode.optimizer != INTERPRETED.optimizer


def double(x):
    return [2.0 * x]


def maker():
    return double


def test_a_function_compiled_when_called_can_be_pickled_before_and_after():
    lazily = CompiledWhenCalled(maker)
    before = pickle.loads(pickle.dumps(lazily))
    assert lazily(3.0) == before(3.0) == [6.0]
    assert pickle.loads(pickle.dumps(lazily))(4.0) == [8.0]


def test_a_substitute_serves_until_the_function_is_compiled():
    made = CompiledOnRequest(maker, lambda: lambda x: [3.0 * x])
    assert made(2.0) == [6.0]
    made.compile()
    assert made(2.0) == [4.0]
    assert CompiledOnRequest(maker, lambda: None)(2.0) == [4.0]


def test_long_compilation_is_announced_and_short_is_not(caplog):
    with caplog.at_level(logging.INFO, logger="pymc.pmgp"):
        with announced(after=30.0):
            pass
        assert not caplog.records
        with announced(after=0.01):
            sleep(0.2)
    assert ["Compiling" in record.message for record in caplog.records] == [True]


@pytest.fixture(scope="module")
def counts():
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 2)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=lengthscale))
        f = gp.prior("f", X=np.linspace(0.0, 1.0, 15)[:, None], reparameterize=False)
        pm.Poisson("y", pm.math.exp(f), observed=np.arange(15) % 3)
    return model


def derivatives(parts: LatentGaussianModel) -> list[bool]:
    """Whether the gradient, the gradient with the curvature, and the third derivative have been compiled."""
    functions = parts.model_likelihood.functions
    return [each.function is not None for each in (functions.gradient, functions.derivatives, functions.third)]


def test_expectation_propagation_compiles_no_derivatives(counts):
    assert derivatives(pmgp.PseudoMarginal(model=counts).latent_model) == [False, False, False]


def test_what_needs_derivatives_compiles_them_before_workers_must(counts):
    laplace = pmgp.PseudoMarginal(approximation="laplace", model=counts)
    assert derivatives(laplace.latent_model) == [False, True, False]
    hmc = pmgp.steps.LatentHMC(mass="prior", model=counts)
    assert derivatives(hmc.shared_model.parts) == [True, False, False]
    smmala = pmgp.steps.LatentSMMALA(model=counts)
    assert derivatives(smmala.shared_model.parts) == [True, True, False]


def by_numpy(parts: LatentGaussianModel) -> bool:
    return isinstance(parts.terms._evaluate, NumpyFunction)


def test_by_numpy_and_compiled_are_the_same_and_read_new_data():
    """The derivatives too, before and after they are compiled, with many draws as with few."""
    y = np.arange(15) % 3
    with pm.Model() as model:
        lengthscale, alpha = pm.Gamma("lengthscale", 2, 2), pm.Gamma("alpha", 2, 1)
        data = pm.Data("counts", y)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=lengthscale))
        f = gp.prior("f", X=np.linspace(0.0, 1.0, 15)[:, None], reparameterize=False)
        pm.NegativeBinomial("y", mu=pm.math.exp(f), alpha=alpha, observed=data)
    parts, compiled = take_apart(model), take_apart(model, compile_kwargs={"mode": INTERPRETED})
    assert by_numpy(parts)
    assert not by_numpy(compiled)
    rng = np.random.default_rng(0)
    for counts in (y, y[::-1] + 4):
        with model:
            pm.set_data({"counts": counts})
        parts.refresh_data()
        compiled.refresh_data()
        for _ in range(3):
            theta, rows = rng.standard_normal(parts.dimension), 2.0 * rng.standard_normal((BLOCK // 15 + 7, 15))
            first, second = parts.likelihood(theta), compiled.likelihood(theta)
            np.testing.assert_allclose(first.log_likelihood(rows), second.log_likelihood(rows), rtol=1e-12)
            np.testing.assert_allclose(first.log_likelihood(rows[0]), first.log_likelihood(rows)[0], rtol=1e-13)
            np.testing.assert_allclose(first.gradient(rows[0]), second.gradient(rows[0]), rtol=1e-10)
            np.testing.assert_allclose(first.derivatives(rows[0]), second.derivatives(rows[0]), rtol=1e-10)
            np.testing.assert_allclose(first.third_derivative(rows[0]), second.third_derivative(rows[0]), rtol=1e-8)
    assert derivatives(parts) == [False, False, False]
