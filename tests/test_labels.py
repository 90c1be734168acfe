"""Draws belong to labels: a model with the same labels in another order, or with some of them, uses the right ones."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose

import pmgp
from pmgp.interface.model.labels import in_order_of

SCHOOLS = ["a", "b", "c", "d"]
LEVELS = {"a": 0.0, "b": 2.0, "c": 4.0, "d": 6.0, "e": 0.0}
SLOPES = {"a": -6.0, "b": -2.0, "c": 2.0, "d": 6.0, "e": 0.0}
QUIETLY = {"progressbar": False}


def rows(schools, known=None, x=1.0):
    """A model of one row for each of some schools; slopes are hyper-parameters, as their scale is a number."""
    known = list(dict.fromkeys(schools)) if known is None else known
    with pm.Model(coords={"school": known}) as model:
        group = [known.index(school) for school in schools]
        scale = pm.HalfNormal("scale", 5.0)
        slope = pm.Normal("slope", 0.0, 5.0, dims="school")
        level = pm.Normal("level", 0.0, scale, dims="school")
        truth = np.array([LEVELS[school] + x * SLOPES[school] for school in schools])
        pm.Normal("y", level[group] + slope[group] * x, 0.5, observed=truth + 0.3 * np.cos(np.arange(len(schools))))
    return model


def posterior(labelled=True, draws=200):
    rng = np.random.default_rng(1)
    values = {"scale": 4.0 + np.zeros((1, draws))}
    for name, given in (("slope", SLOPES), ("level", LEVELS)):
        values[name] = np.array([given[school] for school in SCHOOLS]) + 0.01 * rng.standard_normal((1, draws, 4))
    labels = {"dims": {"slope": ["school"], "level": ["school"]}, "coords": {"school": SCHOOLS}} if labelled else {}
    return az.from_dict({"posterior": values}, **labels)


@pytest.mark.parametrize("schools", [["d", "c", "b", "a"], ["d", "b", "d"]])
def test_rows_of_known_schools_have_their_effects(schools):
    found = pmgp.predict(posterior(), model=rows(schools), **QUIETLY)
    expected = [LEVELS[school] + SLOPES[school] for school in schools]
    assert_allclose(found["mean"], expected, atol=0.01)
    drawn = pmgp.sample_predictions(posterior(), model=rows(schools), random_seed=1, **QUIETLY)["predictions"]
    assert_allclose(drawn["latent"].mean(("chain", "draw")), expected, atol=0.01)
    # A twin: the same draws without labels, which then follow one another.
    twin = pmgp.predict(posterior(labelled=False), model=rows(["d", "c", "b", "a"]), **QUIETLY)
    assert np.abs(twin["mean"] - [12.0, 6.0, 0.0, -6.0]).max() > 1.0


def test_leaving_one_out_does_not_depend_on_the_order_of_labels():
    one, other = (
        pmgp.loo(posterior(), model=rows(SCHOOLS * 3, known), draws=50, random_seed=1, **QUIETLY)
        for known in (SCHOOLS, SCHOOLS[::-1])
    )
    assert_allclose(other.elpd_i, one.elpd_i, atol=0.1)


def test_a_hyperparameter_is_not_drawn_at_new_labels():
    words = (
        r"no draws of 'slope' at e of 'school': give the model the labels of the draws, .* Only an effect whose scale"
    )
    with pytest.raises(ValueError, match=words):
        pmgp.predict(posterior(), model=rows(["b", "c", "d", "e"]), **QUIETLY)


def test_draws_without_labels_follow_one_another():
    """As those of a trace that was made from arrays alone."""
    found = pmgp.predict(posterior(labelled=False), model=rows(SCHOOLS), **QUIETLY)
    assert_allclose(found["mean"], [-6.0, 0.0, 6.0, 12.0], atol=0.01)
    assert float(found["latent_variance"].max()) < 0.01


@pytest.mark.parametrize("labels", [SCHOOLS, [1, 2, 3, 4]])
def test_the_trace_of_a_maximum_has_the_labels_of_the_model(labels):
    with pm.Model(coords={"school": labels}) as model:
        effect = pm.Normal("effect", 0.0, pm.HalfNormal("scale", 20.0), dims="school")
        group = np.repeat(np.arange(4), 5)
        pm.Normal("y", effect[group], 0.1, observed=10.0 * group)
    found = pmgp.find_map(model)
    assert found.trace["posterior"]["effect"].dims == ("chain", "draw", "school")
    predicted = pmgp.predict(found.trace, model=model, **QUIETLY)
    assert_allclose(predicted["mean"], 10.0 * group, atol=0.01)
    # Five observations of each, and a prior that is much wider.
    assert_allclose(predicted["latent_variance"], 0.1**2 / 5.0, rtol=0.3)


def classifier(X, y, labels):
    with pm.Model(coords={"patient": labels}) as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("lengthscale", 1.0)))
        f = gp.prior("f", X=X, reparameterize=False, dims="patient")
        pmgp.BernoulliLogit("y", f, observed=y)
    return model


X, Y, PATIENTS = np.linspace(0.0, 3.0, 6)[:, None], np.array([0, 0, 1, 1, 0, 1]), np.array(list("uvwxyz"))


def latent_draws():
    values = xr.Dataset(
        {
            "lengthscale": (("chain", "draw"), np.full((1, 5), 0.7)),
            "f": (("chain", "draw", "patient"), np.tile(np.sin(3.0 * X[:, 0]), (1, 5, 1))),
        },
        coords={"chain": [0], "draw": np.arange(5), "patient": PATIENTS},
    )
    return xr.DataTree.from_dict({"posterior": values})


def test_latent_values_belong_to_labels_too():
    new, order = [[0.3], [1.7]], [3, 0, 5, 1, 4, 2]
    expected = pmgp.predict(latent_draws(), new, model=classifier(X, Y, PATIENTS), **QUIETLY)
    model = classifier(X[order], Y[order], PATIENTS[order])
    assert_allclose(pmgp.predict(latent_draws(), new, model=model, **QUIETLY)["probability"], expected["probability"])
    twin = classifier(X[order], Y[order], PATIENTS)
    assert (
        np.abs(pmgp.predict(latent_draws(), new, model=twin, **QUIETLY)["probability"] - expected["probability"]).max()
        > 0.01
    )


def test_latent_values_of_other_labels_are_refused():
    with pytest.raises(ValueError, match="no draws of 'f' at U of 'patient': restore the data"):
        pmgp.predict(latent_draws(), [[0.3]], model=classifier(X, Y, np.array(list("Uvwxyz"))), **QUIETLY)


def test_no_part_of_latent_values_is_used_for_fewer_labels():
    """Hyper-parameters have some of the labels, but f would be conditioned on less than the data."""
    model = classifier(X[:4], Y[:4], PATIENTS[:4])
    with model:
        offset = pm.Normal("offset", 0.0, 1.0, dims="patient")
    posterior = latent_draws()["posterior"].to_dataset()
    posterior["offset"] = xr.zeros_like(posterior["f"])
    assert in_order_of(model, posterior, [model["f"], offset]).sizes["patient"] == 6
    assert in_order_of(model, posterior, [offset]).sizes["patient"] == 4
