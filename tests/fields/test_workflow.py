"""Evidence, maximum, leave-one-out and resumed runs take fields like any other model, or refuse them in words."""

from __future__ import annotations

import tracemalloc
import warnings

import numpy as np
import pymc as pm
import pytensor
import pytest

import pmgp
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.markov import PathSampling
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.taking_apart import take_apart
from tests.fields.models import counts_on, lattice_neighbors
from tests.sampling.runs import QUIET, SETTINGS, assert_same_run, kill_at, killed, resumed

SIDE = 4


def areas(neighbors):
    alpha, tau = pm.Uniform("alpha", 0.0, 0.99), pm.Gamma("tau", 3.0, 2.0)
    return pm.CAR("s", mu=np.zeros(len(neighbors)), W=neighbors, alpha=alpha, tau=tau)


def dense(neighbors):
    """The same with a covariance matrix."""
    alpha, tau = pm.Uniform("alpha", 0.0, 0.99), pm.Gamma("tau", 3.0, 2.0)
    precision = tau * (np.diag(neighbors.sum(axis=0)) - alpha * neighbors)
    return pm.MvNormal("s", np.zeros(len(neighbors)), cov=pm.math.matrix_inverse(precision))


def built(field) -> pm.Model:
    return counts_on(field, SIDE**2, lattice_neighbors(SIDE, SIDE))


def on_lattice(side: int) -> pm.Model:
    lattice = pmgp.gp.Lattice((side, side))
    with pm.Model() as model:
        lengthscale, sigma = pm.InverseGamma("lengthscale", 3.0, 6.0), pm.HalfNormal("sigma", 1.0)
        f = pmgp.gp.SPDE(lattice, lengthscale=lengthscale, sigma=sigma).prior("f")
        pm.Poisson("y", pm.math.exp(f), observed=np.arange(side**2) % 3)
    return model


@pytest.fixture(scope="module")
def model():
    return built(areas)


@pytest.fixture(scope="module")
def idata(model):
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        step = pmgp.PseudoMarginal()
        return pm.sample(300, tune=300, chains=2, cores=1, step=step, random_seed=1, progressbar=False)


def test_evidence_maximum_and_left_out_areas_are_those_of_the_dense_model(model, idata):
    other, settings = built(dense), {"random_seed": 1, "progressbar": False}
    found, expected = (pmgp.evidence(idata, model=one, draws=200, **settings) for one in (model, other))
    error = np.hypot(found.standard_error, expected.standard_error)
    assert abs(found.log_evidence - expected.log_evidence) < 3.0 * error < 0.8
    found, expected = (pmgp.loo(idata, model=one, draws=100, **settings) for one in (model, other))
    np.testing.assert_allclose(found.elpd_i, expected.elpd_i, atol=0.05)
    found = pmgp.find_map(model)
    with pytensor.config.change_flags(mode=INTERPRETED):
        expected = pmgp.find_map(other)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-4)
    np.testing.assert_allclose(found.point["s"], expected.point["s"], atol=5e-3)


@pytest.fixture(scope="module")
def whole(model):
    """An uninterrupted run."""
    return pmgp.sample(model, **SETTINGS, **QUIET)


@pytest.mark.parametrize("iteration", [25, 75], ids=["tuning", "sampling"])
def test_killed_runs_go_on_and_draw_the_same(iteration, model, whole, tmp_path):
    stored = {"out": tmp_path, "callback": kill_at(iteration, 1), "flush_every": 0.0}
    killed(lambda: pmgp.sample(model, **stored, **SETTINGS, **QUIET))
    assert_same_run(resumed(tmp_path, model), whole)


def test_recommendations_say_what_a_field_costs(model):
    recommended = pmgp.recommend(model)
    assert recommended.code == "pmgp.PseudoMarginal()"
    assert "that of a sparse factorization" in str(recommended)


def test_predictions_at_new_inputs_are_refused(model, idata):
    with pytest.raises(ModelError, match=r"'s' is a field, .*and at points if they are given to its prior"):
        pmgp.sample_predictions(idata, np.ones((3, 1)), model=model)
    with pytest.raises(ModelError, match=r"Xnew cannot be given.*pm\.set_data"):
        pmgp.predict(idata, np.ones((3, 1)), model=model)


def test_memory_is_that_of_a_sparse_factor():
    """A matrix of n x n would take 128 MB."""
    parts, rng = take_apart(on_lattice(64)), np.random.default_rng(1)
    theta, likelihood = parts.initial_theta, parts.likelihood(parts.initial_theta)
    ExpectationPropagation().fit(parts.prior(theta), likelihood)
    tracemalloc.start()
    try:
        q = ExpectationPropagation().fit(parts.prior(theta), likelihood)
        estimate = PathSampling(16).estimate(rng, q, likelihood)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64e6
    assert estimate.choose(rng).shape == (64**2,)
