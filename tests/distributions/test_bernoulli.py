"""The binary likelihoods as PyMC distributions: density, derivatives, draws, and PyMC's conventions."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from pymc.distributions.moments import mean
from scipy.special import expit, ndtr

import pmgp
from pmgp.core import likelihoods
from pmgp.interface.graphs.compilation import INTERPRETED

LINKS = {"BernoulliProbit": ndtr, "BernoulliLogit": expit}
every_distribution = pytest.mark.parametrize("name", LINKS)
POINTS = np.concatenate([np.linspace(-40.0, 40.0, 81), [-1.0000001, -0.9999999, -8.3, 8.3, 37.6]])


def distribution(name: str):
    return getattr(pmgp.likelihoods, name)


@pytest.fixture(scope="module", params=LINKS)
def compiled(request):
    """Log-density, gradient and curvature in f of each observation, by PyTensor's default linker."""
    f, y = pt.vector("f"), pt.lvector("y")
    logp = pm.logp(distribution(request.param).dist(f), y)
    gradient = pt.grad(logp.sum(), f)
    curvature = -pt.grad(gradient.sum(), f)
    return request.param, pytensor.function([f, y], [logp, gradient, curvature])


@pytest.mark.parametrize("y", [0, 1])
def test_logp_and_derivatives_equal_the_core_likelihood(compiled, y):
    name, function = compiled
    labels = np.full(POINTS.size, y)
    core = getattr(likelihoods, name)(labels)
    logp, gradient, curvature = function(POINTS, labels)
    assert_allclose(logp, core.log_density(POINTS), rtol=1e-12, atol=1e-300)
    assert_allclose(gradient, core.gradient(POINTS), rtol=1e-10, atol=1e-300)
    assert_allclose(curvature, core.curvature(POINTS), rtol=1e-6, atol=1e-14)


def test_nothing_is_nan_far_beyond_the_tails(compiled):
    _, function = compiled
    f = np.array([-1e6, -1e3, 1e3, 1e6])
    for y in (0, 1):
        for values in function(f, np.full(4, y)):
            assert np.isfinite(values).all()


@every_distribution
@pytest.mark.parametrize("label", [-1, 2])
def test_other_labels_have_no_probability(name, label):
    assert pm.logp(distribution(name).dist(0.3), label).eval(mode=INTERPRETED) == -np.inf


@every_distribution
def test_draws_have_the_right_frequencies(name):
    f = np.array([-6.0, -2.0, -0.5, 0.0, 0.8, 3.0])
    size = 20_000
    variable = distribution(name).dist(f, shape=(size, f.size))
    draws = pm.draw(variable, random_seed=4, mode=INTERPRETED)
    probability = LINKS[name](f)
    assert set(np.unique(draws)) == {0, 1}
    error = np.sqrt(probability * (1 - probability) / size)
    assert np.all(np.abs(draws.mean(axis=0) - probability) < 4.5 * error + 1e-12)


@every_distribution
def test_draws_are_independent_given_f(name):
    draws = pm.draw(distribution(name).dist(np.zeros(2), shape=(20_000, 2)), random_seed=5, mode=INTERPRETED)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 4.5 / np.sqrt(20_000)


@every_distribution
def test_mean_and_shape_of_a_variable(name):
    f = np.array([-1.0, 0.4])
    assert_allclose(mean(distribution(name).dist(f)).eval(mode=INTERPRETED), LINKS[name](f), rtol=1e-12)
    assert distribution(name).dist(0.0, shape=3).eval(mode=INTERPRETED).shape == (3,)
    assert distribution(name).dist(f).dtype.startswith("int")


@every_distribution
def test_dims_and_coordinates(name, binary_data):
    _, y = binary_data
    with pm.Model(coords={"patient": [f"p{i}" for i in range(20)]}) as model:
        f = pm.Normal("f", dims="patient")
        distribution(name)("y", f, observed=y, dims="patient")
        prior = pm.sample_prior_predictive(draws=5, random_seed=1, compile_kwargs={"mode": INTERPRETED})
    assert model.named_vars_to_dims["y"] == ("patient",)
    assert prior["prior_predictive"]["y"].dims == ("chain", "draw", "patient")
    assert list(prior["observed_data"]["y"]["patient"].values[:2]) == ["p0", "p1"]


@every_distribution
def test_prior_predictive_follows_its_own_f(name):
    with pm.Model():
        f = pm.Normal("f", 0, 4, shape=3)
        distribution(name)("y", f, observed=[0, 1, 1])
        draws = pm.sample_prior_predictive(draws=4000, random_seed=2, compile_kwargs={"mode": INTERPRETED})
    f = draws["prior"]["f"].to_numpy()[0]
    residual = draws["prior_predictive"]["y"].to_numpy()[0] - LINKS[name](f)
    scores = np.concatenate([residual.mean(axis=0), (residual * f).mean(axis=0)])
    errors = np.concatenate([residual.std(axis=0), (residual * f).std(axis=0)]) / np.sqrt(4000)
    assert np.all(np.abs(scores) < 4.5 * errors)


@every_distribution
def test_posterior_predictive(name):
    f = np.tile([-3.0, 0.0, 1.0], (1, 4000, 1))
    posterior = xr.Dataset({"f": (("chain", "draw", "f_dim_0"), f)})
    with pm.Model():
        latent = pm.Normal("f", shape=3)
        distribution(name)("y", latent, observed=[0, 1, 1])
        draws = pm.sample_posterior_predictive(
            xr.DataTree.from_dict({"posterior": posterior}),
            random_seed=3,
            progressbar=False,
            compile_kwargs={"mode": INTERPRETED},
        )
    frequencies = draws["posterior_predictive"]["y"].to_numpy().mean(axis=(0, 1))
    probability = LINKS[name](f[0, 0])
    error = np.sqrt(probability * (1 - probability) / 4000)
    assert np.all(np.abs(frequencies - probability) < 4.5 * error)


@every_distribution
@pytest.mark.parametrize(("labels", "named"), [([0, 2], "2"), ([-1, 1], "-1"), ([0.5, 0], "0.5")])
def test_labels_outside_the_support_are_named(name, labels, named):
    with pm.Model(), pytest.raises(ValueError, match=f"must be 0 or 1, found {named}"):
        distribution(name)("y", np.zeros(2), observed=np.array(labels))


RECODED = (
    ([1, 2, 1, 2], [0, 1, 0, 1], "makes 1 label 0 and 2 label 1"),
    ([-1, 1, 1, -1], [0, 1, 1, 0], "makes -1 label 0 and 1 label 1"),
    (["f", "m", "m", "f"], [0, 1, 1, 0], "makes 'f' label 0 and 'm' label 1"),
    ([2.0, 1.0, np.nan, 1.0], [1, 0, None, 0], "makes 1.0 label 0"),
    (["f", None, "m", "f"], [0, None, 1, 0], "makes 'f' label 0"),
    (np.ma.masked_array([1, 2, 7, 1], [0, 0, 1, 0]), [0, 1, None, 0], "makes 1 label 0"),
)


@pytest.mark.parametrize(("labels", "expected", "words"), RECODED)
def test_the_advice_on_other_labels_tells_the_two_values_apart(labels, expected, words):
    given = labels if np.ma.isMaskedArray(labels) else np.array(labels, dtype=object if None in labels else None)
    with pm.Model(), pytest.raises(ValueError, match=words) as refused:
        pmgp.BernoulliProbit("y", np.zeros(4), observed=given)
    code = re.search("for example (.*), which", str(refused.value)).group(1)
    assert np.ma.masked_array(eval(code, {"np": np, "pd": pd, "y": given})).tolist() == expected


def test_more_than_two_labels_are_for_another_likelihood():
    with pm.Model(), pytest.raises(ValueError, match=r"found 2; for more than two classes use pmgp\.MultinomialLogit"):
        pmgp.BernoulliProbit("y", np.zeros(3), observed=[0, 1, 2])


@every_distribution
def test_observed_data_can_be_replaced(name):
    with pm.Model() as model:
        data = pm.Data("labels", np.array([0, 1]))
        distribution(name)("y", np.array([0.5, 0.5]), observed=data)
    logp = model.compile_logp(mode=INTERPRETED)
    link = LINKS[name]
    assert_allclose(logp({}), np.log(link(0.5)) + np.log(link(-0.5)))
    with model:
        pm.set_data({"labels": np.array([1, 1])})
    assert_allclose(logp({}), 2 * np.log(link(0.5)))
