"""`pmgp.sample` draws by importance sampling where that is recommended, and runs chains where it cannot be trusted."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.importance import sampling
from pmgp.interface.recommendation import choice
from pmgp.interface.sampling import weighted

QUIET = {"progressbar": False, "random_seed": 3}
X = np.linspace(0.0, 3.0, 12)[:, None]
NOISE, PRIOR = 0.7, 2.0


def identity(shift):
    return shift


def unseen(shift):
    """The observations say nothing of the parameter."""
    return 0.0 * shift


def regression(mean=identity, prior=pm.Normal) -> pm.Model:
    with pm.Model() as model:
        level = mean(prior("shift", 0.0, PRIOR))
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(level), cov_func=pm.gp.cov.Matern52(1, 0.4))
        gp.marginal_likelihood("y", X, np.sin(2.0 * X[:, 0]) + 1.0, NOISE)
    return model


@pytest.fixture(scope="module")
def conjugate() -> pm.Model:
    return regression()


@pytest.fixture(scope="module")
def drawn(conjugate):
    return pmgp.sample(conjugate, ess=800, **QUIET)


def chains(idata) -> tuple[int, int]:
    return idata["posterior"].sizes["chain"], idata["posterior"].sizes["draw"]


def test_the_recommendation_says_so_and_offers_nuts(conjugate):
    found = pmgp.recommend(conjugate)
    assert found.weighted
    assert str(found).startswith("Importance sampling from the maximum: pmgp.importance()\n")
    assert "PyMC's NUTS" in str(found)
    assert found.steps() == []


def test_draws_are_those_of_the_closed_form(drawn):
    covariance = pm.gp.cov.Matern52(1, 0.4)(X).eval(mode=INTERPRETED) + (NOISE**2 + 1e-6) * np.eye(len(X))
    weights = np.linalg.solve(covariance, np.ones(len(X)))
    precision = weights.sum() + PRIOR**-2
    shift = drawn["posterior"]["shift"].to_numpy()[0]
    truth = weights @ (np.sin(2.0 * X[:, 0]) + 1.0) / precision
    assert abs(shift.mean() - truth) < 3.0 / np.sqrt(precision * len(shift))
    assert abs(np.var(shift) * precision - 1.0) < 3.0 * np.sqrt(2.0 / len(shift))


def test_there_are_enough_of_them_and_the_report_says_what_the_weights_are_worth(drawn):
    assert drawn["importance"].sizes["sample"] == 1200
    assert chains(drawn) == (1, int(drawn.attrs["effective_size"]))
    assert drawn.attrs["effective_size"] > 800
    assert drawn.attrs["pmgp_report"].endswith("): reliable")


def test_an_executor_changes_no_draw(conjugate, drawn):
    with ThreadPoolExecutor(2) as executor:
        again = pmgp.sample(conjugate, ess=800, executor=executor, **QUIET)
    assert_array_equal(again["posterior"]["shift"], drawn["posterior"]["shift"])


def test_more_are_weighed_where_the_first_are_worth_too_few(monkeypatch):
    """The search begins between two modes, ends there with a wide proposal, and is not repeated."""
    begun = []
    monkeypatch.setattr(weighted, "begun", lambda *given: begun.append(sampling.begun(*given)) or begun[-1])
    found = pmgp.sample(regression(np.square), ess=100, **QUIET)
    assert found["importance"].sizes["sample"] > 150
    assert found.attrs["effective_size"] > 100
    assert len(begun) == 1


def test_a_chain_is_run_where_the_weights_cannot_be_trusted(caplog):
    """The tails of the proposal are lighter than those of the prior."""
    with caplog.at_level(logging.INFO, "pymc.pmgp"):
        found = pmgp.sample(regression(unseen, pm.Cauchy), draws=50, tune=50, chains=2, cores=1, **QUIET)
    assert "): not reliable. A chain is run instead" in caplog.text
    assert chains(found) == (2, 50)
    assert "importance" not in found.children


@pytest.fixture
def labels(monkeypatch, probit_model):
    """A model that has many points, for this test."""
    monkeypatch.setattr(choice, "MANY_POINTS", 10)
    return probit_model


def test_few_hyperparameters_and_many_points_are_weighed(labels):
    found = pmgp.recommend(labels)
    assert found.weighted
    assert [call.method for call in found.calls] == [pmgp.PseudoMarginal]
    idata = pmgp.sample(labels, draws=20, chains=2, **QUIET)
    assert idata["importance"].sizes["sample"] == 60
    assert set(idata["posterior"].data_vars) == {rv.name for rv in labels.free_RVs}


def test_chains_are_run_for_a_store_and_from_given_starts(labels, tmp_path, caplog):
    settings = QUIET | {"draws": 12, "tune": 12, "chains": 1, "cores": 1}
    with caplog.at_level(logging.INFO, "pymc.pmgp"):
        stored = pmgp.sample(labels, out=tmp_path, **settings)
    assert (
        "A chain, pmgp.PseudoMarginal(): only its draws can be stored as they are made, or begin at given values"
        in caplog.text
    )
    assert chains(stored) == (1, 12)
    assert_array_equal(pmgp.sample(labels, initvals={}, **settings)["posterior"]["f"], stored["posterior"]["f"])
