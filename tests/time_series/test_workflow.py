"""What surrounds a run takes time series like any other model, or refuses them in words."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pmgp
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.markov import PathSampling
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from tests.sampling.runs import QUIET, SETTINGS, assert_same_run, kill_at, killed, resumed
from tests.time_series.models import SERIES, counts

LENGTH = 30


def dense(model: pm.Model) -> pm.Model:
    """The same model with a multivariate normal vector for its series."""
    lags = np.abs(np.subtract.outer(np.arange(LENGTH), np.arange(LENGTH)))
    with pm.Model() as other:
        level = pm.Normal("level", 0.0, 2.0)
        rho, sigma = pm.Uniform("rho", -0.9, 0.95), pm.HalfNormal("sigma", 1.0)
        size = pt.power(pt.abs(rho), lags) * pt.switch(rho < 0.0, (-1.0) ** lags, 1.0)
        x = pm.MvNormal("x", np.zeros(LENGTH), sigma**2 / (1.0 - rho**2) * size)
        pm.Poisson("y", pm.math.exp(level + x), observed=model.rvs_to_values[model["y"]].data)
    return other


@pytest.fixture(scope="module")
def model():
    return counts(LENGTH)


@pytest.fixture(scope="module")
def idata(model):
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        step = pmgp.PseudoMarginal()
        return pm.sample(400, tune=400, chains=2, cores=1, step=step, random_seed=1, progressbar=False)


def test_evidence_and_left_out_values_are_those_of_the_dense_model(model, idata):
    other, settings = dense(model), {"random_seed": 1, "progressbar": False}
    found, expected = (pmgp.evidence(idata, model=one, draws=300, **settings) for one in (model, other))
    error = np.hypot(found.standard_error, expected.standard_error)
    assert abs(found.log_evidence - expected.log_evidence) < 4.0 * error < 0.8
    found, expected = (pmgp.loo(idata, model=one, draws=200, **settings) for one in (model, other))
    np.testing.assert_allclose(found.elpd_i, expected.elpd_i, atol=0.02)


def test_the_maximum_is_that_of_the_dense_model(model):
    found, expected = (pmgp.find_map(one) for one in (model, dense(model)))
    for name in ("level", "rho", "sigma"):
        assert found.point[name] == pytest.approx(expected.point[name], abs=2e-3)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-4)
    np.testing.assert_allclose(found.point["x"], expected.point["x"], atol=5e-3)


def test_chains_in_other_processes_draw_the_same(model):
    settings = {"tune": 40, "draws": 20, "chains": 2, "random_seed": 3, "progressbar": False}
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore")
        one, other = (pm.sample(step=pmgp.PseudoMarginal(), cores=cores, **settings) for cores in (1, 2))
    for name in ("rho", "x"):
        np.testing.assert_array_equal(one["posterior"][name], other["posterior"][name])


@pytest.fixture(scope="module")
def whole(model):
    """An uninterrupted run."""
    return pmgp.sample(model, **SETTINGS, **QUIET)


@pytest.mark.parametrize("iteration", [25, 75], ids=["tuning", "sampling"])
def test_killed_runs_go_on_and_draw_the_same(iteration, model, whole, tmp_path):
    stored = {"out": tmp_path, "callback": kill_at(iteration, 1), "flush_every": 0.0}
    killed(lambda: pmgp.sample(model, **stored, **SETTINGS, **QUIET))
    assert_same_run(resumed(tmp_path, model), whole)


def test_future_values_are_drawn_where_observations_are_missing():
    """Beyond the observations a stationary series returns to its own distribution."""
    y = np.concatenate([np.full(20, 2.0), np.full(20, np.nan)])
    with warnings.catch_warnings(), pm.Model():
        warnings.simplefilter("ignore")
        x = pm.AR("x", rho=[0.6], sigma=pm.HalfNormal("sigma", 0.1), init_dist=pm.Normal.dist(0, 1), shape=40)
        pm.Normal("y", x, 0.1, observed=y)
        found = pm.sample(400, tune=200, chains=1, step=pmgp.PseudoMarginal(), random_seed=1, progressbar=False)
    means = found["posterior"].dataset.mean(["chain", "draw"])
    np.testing.assert_allclose(means["x"][:20], 2.0, atol=0.3)
    expected = float(means["x"][19]) * 0.6 ** np.arange(1, 21)
    np.testing.assert_allclose(means["x"][20:], expected, atol=0.35)
    np.testing.assert_allclose(means["y_unobserved"], means["x"][20:], atol=0.05)


def test_recommendations_and_descriptions(model):
    recommended = pmgp.recommend(model)
    assert recommended.code == "pmgp.PseudoMarginal()"
    assert "along a sparse precision" in str(recommended)
    description = pmgp.describe(model)
    assert description.latent_vectors == {"x": "vector of 30; autoregression of order 1"}
    assert "the coefficients of x" in description.hyperparameters["rho"]
    assert "likelihood" in description.computation
    assert description.computation["estimator"] == "PathSampling"
    with pm.Model() as known:
        x = pm.AR("x", rho=[0.5], init_dist=pm.Normal.dist(0, 1), shape=6)
        pm.Poisson("y", pm.math.exp(x), observed=np.ones(6, dtype=int))
    assert pmgp.recommend(known).code == "pmgp.EllipticalSlice()"


def test_two_series_without_hyperparameters_are_drawn_together():
    with pm.Model() as model:
        first = pm.Normal.dist(0, 1)
        trend, x = (pm.GaussianRandomWalk(name, init_dist=first, shape=6) for name in ("trend", "x"))
        pm.Poisson("y", pm.math.exp(trend + x), observed=np.ones(6, dtype=int))
        recommended = pmgp.recommend(model)
        assert recommended.code == "pmgp.EllipticalSlice()"
        settings = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
        idata = pm.sample(20, tune=5, chains=1, step=recommended.steps(), random_seed=1, **settings)
    assert np.ptp(idata["posterior"]["x"].to_numpy(), axis=1).min() > 0.0


def test_predictions_at_new_inputs_are_refused(model, idata):
    with pytest.raises(ModelError, match=r"'x' is a time series, .*make it longer, with missing observations"):
        pmgp.sample_predictions(idata, np.ones((3, 1)), model=model)
    with pytest.raises(ModelError, match=r"Xnew cannot be given.*pm\.set_data"):
        pmgp.predict(idata, np.ones((3, 1)), model=model)


def test_long_series_cannot_have_each_value_left_out(idata):
    with pytest.raises(ModelError, match="each of the 2001 values"):
        pmgp.loo(idata, model=counts(2001))


def test_data_are_read_again():
    with pm.Model():
        counted = pm.Data("counted", np.ones(20, dtype=int))
        pm.Poisson("y", pm.math.exp(SERIES["walk"](20)), observed=counted)
        before = pmgp.marginal.log_likelihood(estimator="none", random_seed=1).value
        pm.set_data({"counted": np.arange(20)})
        assert pmgp.marginal.log_likelihood(estimator="none", random_seed=1).value < before - 5.0


def test_memory_is_proportional_to_the_length():
    """A matrix of n x n would take 200 MB."""
    parts, rng = take_apart(counts(5000)), np.random.default_rng(1)
    theta, likelihood = parts.initial_theta, parts.likelihood(parts.initial_theta)
    q = ExpectationPropagation().fit(parts.prior(theta), likelihood)
    tracemalloc.start()
    try:
        parts.refresh_data()
        q = ExpectationPropagation().fit(parts.prior(theta), likelihood)
        estimate = PathSampling(16).estimate(rng, q, likelihood)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert estimate.choose(rng).shape == (5000,)
    assert peak < 25e6
