"""The whole model that inducing inputs stand for, and the exact chain beside the approximation."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from tests.sampling.test_executors import Here
from tests.sparse.problems import COUNTS, TARGETS, X, gaussian, poisson, sparse


def levels():
    """A prior that depends on another variable, and on data."""
    scale = pm.LogNormal("scale", 0.0, 0.5)
    noise = pm.LogNormal("noise", pm.math.log(scale), 0.5)
    lengthscale = pm.Gamma("lengthscale", 2.0, scale)
    pm.Normal("measured", lengthscale, 0.3, observed=[0.8, 1.1])
    pm.Potential("limited", -pm.math.sqr(scale))
    return noise, pm.gp.mean.Constant(pm.Normal("level")), pm.gp.cov.Matern52(1, ls=lengthscale)


def log_density(model, point):
    function = model.compile_fn(model.logp(), mode=INTERPRETED)
    return float(function({value.name: point[value.name] for value in model.value_vars}))


def test_it_has_the_log_density_of_the_model_written_by_hand(rng):
    with pm.Model() as approximate:
        noise, mean_func, cov_func = levels()
        process = pmgp.gp.Sparse(mean_func=mean_func, cov_func=cov_func)
        f = process.prior("g", X=X, Xu=X[::3])
        process.observe("y", f, noise, dist=gaussian, observed=TARGETS)
    with pm.Model() as dense:
        noise, mean_func, cov_func = levels()
        latent = pm.gp.Latent(mean_func=mean_func, cov_func=cov_func)
        f = latent.prior("f", X=X, reparameterize=False, jitter=1e-6)
        pm.Normal("y", f, noise, observed=TARGETS)
    with approximate:
        process.conditional("new", X + 0.1)
        whole = process.exact_model(jitter=1e-6)
    assert [rv.name for rv in whole.free_RVs] == [rv.name for rv in dense.free_RVs]
    for _ in range(3):
        point = {name: rng.standard_normal(np.shape(value)) for name, value in dense.initial_point().items()}
        np.testing.assert_allclose(log_density(whole, point), log_density(dense, point), rtol=1e-9)


def test_the_exact_chain_beside_the_approximation():
    """Four inducing inputs leave a bias that some hundred draws show, and each column is what it says."""
    model, process = sparse(X[::3])
    settings = {"draws": 400, "tune": 300, "chains": 2, "cores": 1, "random_seed": 1}
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model:
        idata = pm.sample(step=pmgp.steps.SparseGibbs(), **settings, **quiet)
        executor = Here()
        table = pmgp.gp.compare_with_exact(idata, process, executor=executor, **settings, **quiet)
    assert executor.submitted == settings["chains"]
    assert set(table.index) == {"variance", "lengthscale"}
    draws = idata["posterior"]["lengthscale"]
    row = table.loc["lengthscale"]
    np.testing.assert_allclose([row["mean"], row["sd"]], [draws.mean(), draws.std(ddof=1)], rtol=1e-6)
    np.testing.assert_allclose(row["shift"], (row["mean"] - row["exact_mean"]) / row["exact_sd"])
    assert row["shift"] > 4.0 * row["error"] > 0.0
    assert row["error"] < 0.1


def test_what_is_refused(monkeypatch):
    model, process = sparse(X[::3])
    with model:
        pm.Normal("direct", model["f_rotated_"].sum(), 1.0, observed=0.0)
    with pytest.raises(pmgp.ModelError, match="'direct' depends on the whitened values"):
        process.exact_model(model=model)
    monkeypatch.setattr("pmgp.interface.sampling.comparison.LARGEST", 9)
    with pytest.raises(ValueError, match="there are 10 points, and the exact chain is for up to 9"):
        pmgp.gp.compare_with_exact(None, process, model=model)
    with pm.Model() as several:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = process.prior("f", X=X, Xu=X[::3], n_outputs=2)
        process.observe("y", f, dist=poisson, observed=np.stack([COUNTS, COUNTS]))
    with pytest.raises(pmgp.ModelError, match="the process has 2 outputs"):
        process.exact_model(model=several)
