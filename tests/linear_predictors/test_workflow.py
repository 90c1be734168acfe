"""What surrounds a run takes sums of latent variables, and the chain agrees with NUTS."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface.model.latent_gaussian import ModelError
from tests.linear_predictors.models import crossed, rows
from tests.references import Reference, apart, summarized
from tests.sampling import runs
from tests.sampling.runs import SETTINGS, assert_same_run, kill_at, killed, resumed

DATA = rows(60, 8, 6)
QUIET = {"progressbar": False, "random_seed": 1}


def two_factors() -> pm.Model:
    return crossed(DATA, 8, 6)


NUTS = Reference("crossed effects", two_factors, ("level", "slope", "tau", "omega", "u", "v"), target_accept=0.95)


@pytest.fixture(scope="module")
def model():
    return two_factors()


@pytest.fixture(scope="module")
def idata(model):
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(1500, tune=600, chains=2, cores=1, step=pmgp.PseudoMarginal(), **QUIET)


def test_the_posterior_is_that_of_nuts(idata):
    distances = apart(summarized(idata, NUTS.variables), NUTS.summary())
    assert distances["mean"].max() < 4.0
    assert distances["sd"].max() < 4.0


def test_evidence_maximum_and_left_out_observations(model, idata):
    """The same model with all effects named, and so by another route through the same code, has the same evidence."""
    evidence = pmgp.evidence(idata, model=model, draws=300, **QUIET)
    assert evidence.standard_error < 0.2
    more = pmgp.evidence(idata, model=model, latent=["level", "slope", "u", "v"], draws=300, **QUIET)
    error = np.hypot(evidence.standard_error, more.standard_error)
    assert abs(evidence.log_evidence - more.log_evidence) < 4.0 * error < 0.8
    left_out = pmgp.loo(idata, model=model, draws=200, **QUIET)
    assert left_out.n_data_points == len(DATA.first)
    found = pmgp.find_map(model)
    assert found.converged
    assert found.point["u"].shape == (8,)


def test_killed_runs_go_on_and_draw_the_same(model, tmp_path):
    whole = pmgp.sample(model, **SETTINGS, **runs.QUIET)
    stored = {"out": tmp_path, "callback": kill_at(75, 1), "flush_every": 0.0}
    killed(lambda: pmgp.sample(model, **stored, **SETTINGS, **runs.QUIET))
    assert_same_run(resumed(tmp_path, model), whole)


def test_draws_where_nothing_is_new_have_the_predictors_of_the_posterior(model, idata):
    """The predictors are those of each draw, and counts have their exponential for a mean and a variance."""
    with pytest.raises(ModelError, match=r"parts of linear predictors.*pmgp\.sample_predictions\(idata\)"):
        pmgp.sample_predictions(idata, np.ones((3, 1)), model=model)
    found = pmgp.sample_predictions(idata, model=model, draws=None, random_seed=1)["predictions"]
    posterior = idata["posterior"]
    eta = posterior["level"].to_numpy()[..., None] + posterior["slope"].to_numpy()[..., None] * DATA.z
    eta = eta + posterior["u"].to_numpy()[..., DATA.first] + posterior["v"].to_numpy()[..., DATA.second]
    np.testing.assert_allclose(found["latent"], eta, rtol=1e-9, atol=1e-10)
    rate = np.exp(eta)
    scores = (found["y"].to_numpy() - rate).sum(axis=(0, 1)) / np.sqrt(rate.sum(axis=(0, 1)))
    assert np.abs(scores).max() < 4.5
    assert 0.7 < scores.std() < 1.3
