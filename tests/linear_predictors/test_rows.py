"""Predictions for rows of new data: new groups and times have closed forms given theta, which are averaged exactly."""

from __future__ import annotations

from functools import cache

import arviz
import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.special import softmax
from scipy.stats import norm

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.prediction.grown import GrownPiece
from pmgp.interface.prediction.predictor_rows import PredictorRows, Predictors

GROUPS, TIMES, DRAWS = 4, 5, 7
BOUND = 4.5


def model_of_rows(series: str = "walk") -> pm.Model:
    """Counts with a covariate, effects of groups, slopes that differ by group, and a series."""
    with pm.Model(coords={"group": list("abcd"), "time": np.arange(TIMES)}) as model:
        group, time, z = pm.Data("group_of", [0, 1, 2, 3]), pm.Data("time_of", [0, 1, 2, 4]), pm.Data("z", np.ones(4))
        level, beta = pm.Normal("level", 0, 2), pm.Normal("beta", 0, 1)
        tau, sigma, rho = pm.HalfNormal("tau", 1), pm.HalfNormal("sigma", 1), pm.Uniform("rho", -1, 1)
        u, w = pm.Normal("u", 0, tau, dims="group"), pm.Normal("w", 0.1, tau, dims="group")
        if series == "walk":
            s = pm.GaussianRandomWalk("s", sigma=sigma, init_dist=pm.Normal.dist(0, 0.5), dims="time")
        else:
            s = pm.AR("s", rho=rho, sigma=sigma, init_dist=pm.Normal.dist(0, 0.5), dims="time")
        pm.Poisson("y", pm.math.exp(level + beta * z + u[group] + z * w[group] + s[time]), observed=[1, 0, 2, 3])
    return model


@cache
def draws_of(series: str = "walk") -> xr.DataTree:
    """Draws from the prior in place of a posterior: predictions are the same function of them."""
    model = model_of_rows(series)
    drawn = pm.draw(model.free_RVs, DRAWS, random_seed=1, mode=INTERPRETED)
    shapes = {rv.name: ("chain", "draw", *model.named_vars_to_dims.get(rv.name, ())) for rv in model.free_RVs}
    values = {rv.name: (shapes[rv.name], one[None]) for rv, one in zip(model.free_RVs, drawn, strict=True)}
    labels = {name: list(model.coords[name]) for name in ("group", "time")}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords=labels)})


def with_new_rows(model: pm.Model) -> None:
    """A known group first, a new group at the last known time, a new group two steps later."""
    model.set_dim("group", 3, coord_values=["b", "new", "other"])
    model.set_dim("time", TIMES + 2, coord_values=np.arange(TIMES + 2))
    for name, values in {"group_of": [0, 1, 2], "time_of": [1, 4, 6], "z": [0.0, 0.5, 2.0]}.items():
        model.set_data(name, np.array(values))


def expected(posterior: xr.Dataset, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of the predictors in each draw, (3, draws) each."""
    level, beta, tau, sigma, u, s = (
        posterior[name].to_numpy()[0] for name in ("level", "beta", "tau", "sigma", "u", "s")
    )
    last = s[:, -1]
    means = [level + u[:, 1] + s[:, 1], level + 0.5 * beta + 0.05 + last, level + 2 * beta + 0.2 + rho**2 * last]
    variances = [0 * tau, tau**2 * 1.25, tau**2 * 5.0 + sigma**2 * (1.0 + rho**2)]
    return np.array(means), np.array(variances)


def difference(series: str) -> float:
    model = model_of_rows(series)
    idata = draws_of(series)
    with_new_rows(model)
    posterior = idata["posterior"].to_dataset()
    rho = posterior["rho"].to_numpy()[0] if series == "regression" else np.ones(DRAWS)
    means, variances = expected(posterior, rho)
    found = pmgp.predict(idata, model=model)
    truth = {
        "latent_mean": means.mean(axis=1),
        "latent_variance": variances.mean(axis=1) + means.var(axis=1),
        "mean": np.exp(means + 0.5 * variances).mean(axis=1),
    }
    return max(float(np.abs(found[name].to_numpy() / value - 1.0).max()) for name, value in truth.items())


@pytest.mark.parametrize("series", ["walk", "regression"])
def test_new_groups_and_times_have_their_closed_forms(series):
    assert difference(series) < 1e-8


def test_a_twin_that_forgets_what_was_sampled_is_rejected(monkeypatch):
    """New times would be drawn from the prior, whatever came before."""
    given = GrownPiece.given
    monkeypatch.setattr(GrownPiece, "given", lambda self, theta, x: given(self, theta, 0.0 * x))
    assert difference("walk") > 1e-2


# Rows of a known group and a new one, at a known time and a later one; in the last, two rows share both.
COMBINATIONS = {
    "all known": ([0, 1], [1, 4]),
    "new groups": ([1, 4, 4, 5], [1, 4, 0, 0]),
    "new times": ([0, 1, 2], [5, 6, 6]),
    "both": ([4, 4, 5, 0], [5, 6, 6, 5]),
    "the same new ones": ([4, 4], [6, 6]),
}


def deviation_of_draws(series: str, rows: tuple[list[int], list[int]]) -> float:
    """The largest difference of first and second moments of drawn predictors from those by algebra, in its errors."""
    model, count = model_of_rows(series), 400
    idata = draws_of(series)
    posterior = idata["posterior"].to_dataset().isel(draw=[0] * count).assign_coords(draw=np.arange(count))
    model.set_dim("group", GROUPS + 2, coord_values=[*"abcd", "new", "other"])
    model.set_dim("time", TIMES + 2, coord_values=np.arange(TIMES + 2))
    group, time = map(np.array, rows)
    z = np.linspace(0.5, 2.0, len(group))
    for name, values in {"group_of": group, "time_of": time, "z": z}.items():
        model.set_data(name, values)
    drawn = pmgp.sample_predictions(
        xr.DataTree.from_dict({"posterior": posterior}), model=model, draws=None, random_seed=3
    )["predictions"]
    latent = drawn["latent"].to_numpy()[0]
    mean, covariance = algebra(posterior.isel(chain=0, draw=0), series, group, time, z)
    centered = latent - mean
    moments = np.concatenate([centered, (centered[:, :, None] * centered[:, None, :]).reshape(count, -1)], axis=1)
    expected = np.concatenate([0.0 * mean, covariance.ravel()])
    errors = moments.std(axis=0) / np.sqrt(count) + 1e-10
    # Counts given the predictor: their mean is its exponential.
    counts = drawn["y"].to_numpy()[0] - np.exp(latent)
    of_counts = counts.mean(axis=0) / (counts.std(axis=0) / np.sqrt(count))
    return float(np.abs(np.concatenate([(moments.mean(axis=0) - expected) / errors, of_counts])).max())


def algebra(one: xr.Dataset, series: str, group: np.ndarray, time: np.ndarray, z: np.ndarray):
    """Mean and covariance of the predictors given one draw: groups by their prior, times by the recursion."""
    rho = float(one["rho"]) if series == "regression" else 1.0
    tau, sigma, s = float(one["tau"]), float(one["sigma"]), one["s"].to_numpy()
    path = np.concatenate([s, s[-1] * rho ** np.arange(1, 3)])
    u, w = np.append(one["u"].to_numpy(), [0.0, 0.0]), np.append(one["w"].to_numpy(), [0.1, 0.1])
    mean = float(one["level"]) + float(one["beta"]) * z + u[group] + z * w[group] + path[time]
    same = np.equal.outer(group, group) & (group >= GROUPS)
    steps = np.zeros((TIMES + 2, TIMES + 2))
    steps[TIMES:, TIMES:] = sigma**2 * np.array([[1.0, rho], [rho, 1.0 + rho**2]])
    return mean, tau**2 * same * (1.0 + np.outer(z, z)) + steps[np.ix_(time, time)]


@pytest.mark.parametrize(
    ("series", "name"),
    [*[("walk", name) for name in COMBINATIONS if name != "new groups"], ("regression", "both")],
)
def test_draws_for_new_groups_and_times_have_the_moments_of_algebra(series, name):
    assert deviation_of_draws(series, COMBINATIONS[name]) < 0.75 * BOUND


def test_a_twin_that_draws_the_rows_of_a_new_group_apart_is_rejected(monkeypatch):
    drawn, at, several = PredictorRows.draw, Predictors.at, []

    def draw(self, rng, given):
        several[:] = [drawn(self, rng, given) for _ in range(2)]
        return several[0]

    def apart(self, theta, pieces):
        return np.array([at(self, theta, one)[row] for row, one in enumerate(several)])

    monkeypatch.setattr(PredictorRows, "draw", draw)
    monkeypatch.setattr(Predictors, "at", apart)
    assert deviation_of_draws("walk", COMBINATIONS["the same new ones"]) > 2.0 * BOUND


def test_a_series_alone_goes_on():
    with pm.Model(coords={"time": np.arange(3)}) as model:
        rho = pm.Uniform("rho", -1, 1)
        s = pm.AR("s", rho=rho, sigma=np.float64(1.0), init_dist=pm.Normal.dist(0, 1), dims="time")
        pm.Normal("y", s, 1.0, observed=np.zeros(3))
    values = {"rho": (("chain", "draw"), [[0.5]]), "s": (("chain", "draw", "time"), [[[0.0, 1.0, 2.0]]])}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords={"time": np.arange(3)})})
    model.set_dim("time", 5, coord_values=np.arange(5))
    found = pmgp.predict(idata, model=model)
    np.testing.assert_allclose(found["mean"], [0.0, 1.0, 2.0, 1.0, 0.5], rtol=1e-10)
    np.testing.assert_allclose(found["latent_variance"], [0.0, 0.0, 0.0, 1.0, 1.25], atol=1e-10)


def test_what_has_no_prediction_is_refused_in_words():
    model = model_of_rows()
    idata = draws_of()
    with pytest.raises(ModelError, match=r"Xnew cannot be given.*pm\.set_data.*leave Xnew out"):
        pmgp.predict(idata, np.ones((3, 1)), model=model)
    for wrong in ({"at": {"z": 1.0}}, {"gp": model}):
        with pytest.raises(ModelError, match=r"cannot be given.*pm\.set_data.*leave \w+ out"):
            pmgp.sample_predictions(idata, model=model, **wrong)
    model.set_data("group_of", np.array([0, 1, 2, 7]))
    with pytest.raises(ModelError, match=r"beyond the last element.*model\.set_dim\('group'"):
        pmgp.predict(idata, model=model)
    model.set_data("group_of", np.array([0, 1, 2]))
    with pytest.raises(ModelError, match=r"same number of rows: {.*'group_of': 3.*}\. Set them together"):
        pmgp.predict(idata, model=model)
    model.set_data("group_of", np.array([0, 1, 2, 3]))
    model.set_dim("time", TIMES, coord_values=np.arange(1, TIMES + 1))
    with pytest.raises(ModelError, match=r"the 5 values of .*'s' in the posterior.*all earlier values"):
        pmgp.predict(idata, model=model)
    for function in (pmgp.predict, pmgp.sample_predictions):
        with pytest.raises(ValueError, match="Xnew is needed"):
            function(idata, model=in_time())


def in_time() -> pm.Model:
    with pm.Model() as model:
        covariance = pm.HalfNormal("scale", 1.0) ** 2 * pm.gp.cov.Matern32(1, ls=1.0)
        pm.Normal("y", pmgp.gp.Markov(cov_func=covariance).prior("f", X=[0.0, 1.0]), 1.0, observed=[0.0, 1.0])
    return model


# Predictors that expectations multiply, and several for an observation

CLOSED = {
    "BernoulliProbit": lambda name, eta: pmgp.BernoulliProbit(name, eta, observed=[0, 1]),
    "BernoulliLogit": lambda name, eta: pmgp.BernoulliLogit(name, eta, observed=[0, 1]),
    "OrdinalProbit": lambda name, eta: pmgp.OrdinalProbit(name, eta, [-1.0, 2.0], observed=[0, 1]),
    "Poisson": lambda name, eta: pm.Poisson(name, pm.math.exp(eta), observed=[0, 1]),
}


MONTHS = pd.date_range("2024-07-01", periods=4, freq="MS").to_numpy()


@pytest.mark.parametrize(
    ("labels", "later", "good"),
    [
        (np.arange(3), 20, 3),
        (0.1 * np.arange(1, 4), 0.5, 0.4),
        # Thirty days after two months of thirty-one.
        (MONTHS[:3], np.datetime64("2024-12-01", "ns"), MONTHS[3]),
    ],
    ids=["numbers", "fractions", "months"],
)
def test_a_series_has_an_element_for_each_step(labels, later, good):
    with pm.Model(coords={"time": labels}) as model:
        sigma = pm.HalfNormal("sigma", 1.0)
        s = pm.GaussianRandomWalk("s", sigma=sigma, init_dist=pm.Normal.dist(0, 1), dims="time")
        pm.Poisson("y", pm.math.exp(s[pm.Data("at", [0, 1, 2])]), observed=[1, 0, 2])
    values = {"sigma": (("chain", "draw"), np.ones((1, 1))), "s": (("chain", "draw", "time"), np.zeros((1, 1, 3)))}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords={"time": labels})})
    model.set_dim("time", 4, coord_values=[*labels, later])
    model.set_data("at", np.array([3]))
    with pytest.raises(ModelError, match=r"'time' go from .* in another step than before, .* add the labels"):
        pmgp.predict(idata, model=model, progressbar=False)
    model.set_dim("time", 4, coord_values=[*labels, good])
    found = pmgp.predict(idata, model=model, progressbar=False)
    np.testing.assert_allclose(found["latent_variance"], [1.0])


def of_two_groups(observe, draws: int = 1) -> tuple[pm.Model, xr.DataTree]:
    """Effects of two groups that are known, with a deviation of two."""
    with pm.Model(coords={"g": ["a", "b"]}) as model:
        group = pm.Data("group_of", np.array([0, 1]))
        observe("y", pm.Normal("u", 0.0, pm.HalfNormal("tau"), dims="g")[group])
    values = {"tau": (("chain", "draw"), np.full((1, draws), 2.0))}
    values["u"] = (("chain", "draw", "g"), np.tile([0.3, -0.4], (1, draws, 1)))
    coords = {"chain": [0], "draw": np.arange(draws), "g": ["a", "b"]}
    return model, xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords=coords)})


@pytest.mark.parametrize("name", CLOSED)
def test_the_predictor_is_the_one_that_the_likelihood_was_given(name):
    """Also where there are more rows than observations."""
    model, idata = of_two_groups(CLOSED[name])
    with model:
        pm.set_data({"group_of": np.array([0, 1, 1])})
    found = pmgp.predict(idata, model=model)
    np.testing.assert_allclose(found["latent_mean"], [0.3, -0.4, -0.4], rtol=1e-12)
    if name == "BernoulliProbit":
        np.testing.assert_allclose(found["probability"], norm.cdf([0.3, -0.4, -0.4]), rtol=1e-9)
        assert found["probability"].dims == ("point",)


E = np.array([1.0, 2.0])
WRITTEN = {
    "offset and sign": (lambda u, level: np.log(E) - u, lambda u: np.log(E) - u),
    "sign": (lambda u, level: -(level + u), lambda u: -(2.0 + u)),
    "half": (lambda u, level: (level + u) / 2.0, lambda u: (2.0 + u) / 2.0),
    "scale": (lambda u, level: 1.7 * (level + u), lambda u: 1.7 * (2.0 + u)),
    "hyper-parameter": (lambda u, level: 1.0 + level * u, lambda u: 1.0 + 2.0 * u),
}


def one_draw(**values) -> xr.DataTree:
    """A posterior of one draw, with the effect of one group."""
    draws = {name: np.asarray(value)[None, None] for name, value in values.items()}
    return arviz.from_dict({"posterior": draws}, dims={"u": ["g"]}, coords={"g": ["a"]})


def of_written(eta, observe) -> xr.Dataset:
    """Predictions for a known group and a new one, whose effect has a deviation of two."""
    with pm.Model(coords={"g": ["a"]}) as model:
        tau, level = pm.HalfNormal("tau"), pm.Normal("level")
        group = pm.Data("group_of", np.array([0, 0]))
        observe("y", eta(pm.Normal("u", 0.0, tau, dims="g")[group], level))
    model.set_dim("g", 2, coord_values=["a", "b"])
    model.set_data("group_of", np.array([0, 1]))
    idata = one_draw(tau=2.0, level=2.0, u=[0.3])
    drawn = pmgp.sample_predictions(idata, model=model, random_seed=1, progressbar=False)["predictions"]
    assert drawn["latent"].sizes["point"] == 2
    return pmgp.predict(idata, model=model, progressbar=False).assign(drawn=drawn["latent"][0, 0])


@pytest.mark.parametrize(("eta", "expected"), WRITTEN.values(), ids=WRITTEN)
def test_latent_moments_are_those_of_the_predictor_as_it_is_written(eta, expected):
    found = of_written(eta, lambda name, f: pm.Poisson(name, pm.math.exp(f), observed=[1, 2]))
    at_zero, slope = expected(0.0), expected(1.0) - expected(0.0)
    known = at_zero + slope * 0.3
    np.testing.assert_allclose(found["latent_mean"], [np.ravel(known)[0], np.ravel(at_zero)[-1]], rtol=1e-9)
    np.testing.assert_allclose(found["latent_variance"], [0.0, (2.0 * np.ravel(slope)[-1]) ** 2], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["drawn"][0], np.ravel(known)[0], rtol=1e-9)
    np.testing.assert_allclose(found["mean"], np.exp(found["latent_mean"] + found["latent_variance"] / 2), rtol=1e-6)


LINKS = {
    "probit": lambda name, f: pm.Bernoulli(name, p=pm.math.invprobit(f), observed=[0, 1]),
    "ordered probit": lambda name, f: pm.OrderedProbit(name, eta=f, cutpoints=[0.0, 1.0], observed=[0, 1]),
    "ordered logit": lambda name, f: pm.OrderedLogistic(name, eta=f, cutpoints=[0.0, 1.0], observed=[0, 1]),
    "logit by hand": lambda name, f: pm.Bernoulli(name, p=1.0 / (1.0 + pm.math.exp(-f)), observed=[0, 1]),
    "logits of classes": lambda name, f: pm.Categorical(
        name, logit_p=pt.stack([0.0 * f, f], axis=-1), observed=np.array([0, 1])
    ),
    "probit with its own scale": lambda name, f: pmgp.BernoulliProbit(name, f, observed=[0, 1]),
}


@pytest.mark.parametrize("observe", LINKS.values(), ids=LINKS)
def test_the_parts_of_a_link_are_no_part_of_the_predictor(observe):
    found = of_written(lambda u, level: level - u, observe)
    np.testing.assert_allclose(found["latent_mean"], [1.7, 2.0], rtol=1e-9)
    np.testing.assert_allclose(found["latent_variance"], [0.0, 4.0], rtol=1e-9, atol=1e-12)


def test_each_outcome_has_its_predictors_in_the_order_of_the_model():
    x = np.array([0.1, 0.2, 0.3])
    with pm.Model() as model:
        loading, tau = pm.Normal("loading", 1.0, 1.0), pm.HalfNormal("tau", 1.0)
        u = pm.Normal("u", 0.0, tau, shape=3)
        pm.Normal("first", 100.0 + u[::-1], 0.5, observed=np.zeros(3))
        pm.Normal("second", x[:2] + loading * u[:2], 0.5, observed=np.zeros(2))
    values = {"loading": np.full((1, 1), 2.0), "tau": np.ones((1, 1)), "u": np.array([[[1.0, 2.0, 3.0]]])}
    idata = arviz.from_dict({"posterior": values})
    found = pmgp.predict(idata, model=model, progressbar=False)
    np.testing.assert_allclose(found["first_latent_mean"], [103.0, 102.0, 101.0])
    np.testing.assert_allclose(found["second_latent_mean"], [2.1, 4.2])
    assert found["first_mean"].dims == found["first_latent_mean"].dims == ("first_point",)
    drawn = pmgp.sample_predictions(idata, model=model, random_seed=1, progressbar=False)["predictions"]
    np.testing.assert_allclose(drawn["second_latent"][0, 0], [2.1, 4.2])
    assert drawn["second"].dims == drawn["second_latent"].dims == ("chain", "draw", "second_point")


def counts_of_a_table(u, group):
    pm.Poisson("y", pm.math.exp(u[group][:, None] + np.zeros((1, 3))), observed=np.ones((2, 3), dtype=int))


def two_counts(u, group):
    pm.Poisson("y", pm.math.exp(u[group]), observed=[1, 2])
    pm.Poisson("z", pm.math.exp(0.1 + u[group]), observed=[1, 2])


@pytest.mark.parametrize("observe", [counts_of_a_table, two_counts])
def test_new_groups_are_averaged_exactly_in_tables_and_for_two_outcomes(observe):
    with pm.Model(coords={"g": ["a"]}) as model:
        group = pm.Data("group_of", np.array([0, 0]))
        observe(pm.Normal("u", 0.0, pm.HalfNormal("tau"), dims="g"), group)
    model.set_dim("g", 2, coord_values=["a", "b"])
    model.set_data("group_of", np.array([1, 1]))
    idata = one_draw(tau=1.5, u=[0.3])
    found = pmgp.predict(idata, model=model, progressbar=False)
    means = [name for name in found if name.endswith("mean") and "latent" not in name]
    for name in means:
        np.testing.assert_allclose(found[name], np.exp(1.5**2 / 2 + (0.1 if name == "z_mean" else 0.0)), rtol=1e-6)


def several_logits(name, eta):
    pm.Categorical(name, logit_p=pt.stack([pt.zeros_like(eta), eta, -eta], axis=-1), observed=[0, 1])


@pytest.mark.parametrize(
    ("observe", "density", "draws", "tolerance"),
    [
        (CLOSED["OrdinalProbit"], lambda u: np.diff(norm.cdf([-np.inf, -1.0 - u, 2.0 - u, np.inf])), 1, 1e-6),
        (several_logits, lambda u: softmax([0.0, u, -u]), 400, 0.01),
    ],
)
def test_classes_of_a_new_group_have_their_probabilities(observe, density, draws, tolerance):
    model, idata = of_two_groups(observe, draws)
    model.set_dim("g", 3, coord_values=["a", "b", "new"])
    with model:
        pm.set_data({"group_of": np.array([0, 2])})
    found = pmgp.predict(idata, model=model)["probabilities"].to_numpy()
    exact = [quad(lambda u, c=c: density(u)[c] * norm.pdf(u, scale=2.0), -20.0, 20.0, limit=200)[0] for c in range(3)]
    np.testing.assert_allclose(found, [density(0.3), exact], atol=tolerance)


DATES = [pd.date_range("2020-01-01", periods=2), np.array(["2020-01-01", "2021-01-01"], "M8[D]")]


@pytest.mark.parametrize("labels", [["b", "a"], [3, 1], [0.5, 0.25], *DATES])
def test_groups_are_found_by_labels_of_every_kind(labels, tmp_path):
    with pm.Model(coords={"g": labels}) as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), dims="g")
        pm.Bernoulli("y", logit_p=u[np.array([0, 1])], observed=[0, 1])
    coords = {"chain": [0], "draw": [0], "g": labels}
    values = {"tau": (("chain", "draw"), [[2.0]]), "u": (("chain", "draw", "g"), [[[0.3, -0.4]]])}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords=coords)})
    idata.to_netcdf(tmp_path / "draws.nc")
    for stored in (idata, xr.open_datatree(tmp_path / "draws.nc")):
        found = pmgp.predict(stored, model=model)
        np.testing.assert_allclose(found["latent_mean"], [0.3, -0.4], rtol=1e-12)
        np.testing.assert_array_equal(found["latent_variance"], 0.0)


WITH_MISSING = {
    "Poisson": lambda eta, y: pm.Poisson("y", pm.math.exp(eta), observed=y),
    "Normal": lambda eta, y: pm.Normal("y", eta, 0.5, observed=y),
    "BernoulliProbit": lambda eta, y: pmgp.BernoulliProbit("y", eta, observed=np.minimum(y, 1.0)),
}


def test_labels_that_are_text_here_and_numbers_there_are_refused():
    """All groups would be new, and have their prior."""
    with pm.Model(coords={"g": ["1", "2"]}) as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), dims="g")
        pm.Poisson("y", pm.math.exp(u), observed=[1, 2])
    values = {"tau": (("chain", "draw"), [[1.0]]), "u": (("chain", "draw", "g"), [[[0.2, 0.4]]])}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords={"g": [1, 2]})})
    with pytest.raises(
        ValueError, match="coordinates of 'g' have '1' in the model and 1 in the posterior, of the types"
    ):
        pmgp.predict(idata, model=model, progressbar=False)


@pytest.mark.parametrize("name", WITH_MISSING)
@pytest.mark.filterwarnings("ignore:Support point not defined")
def test_rows_whose_observations_are_missing_are_predicted_with_the_others(name):
    y = np.array([0.0, np.nan, 2.0, 1.0, np.nan])
    with pm.Model() as model:
        s = pm.AR("s", rho=[0.5], sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=5)
        WITH_MISSING[name](s + pm.Normal("level"), y)
    f = np.random.default_rng(5).normal(size=(1, 6, 5))
    values = {"s": (("chain", "draw", "time"), f), "level": (("chain", "draw"), np.full((1, 6), 0.3))}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values, coords={"chain": [0], "draw": np.arange(6)})})
    found = pmgp.predict(idata, model=model)
    eta = f[0] + 0.3
    np.testing.assert_allclose(found["latent_mean"], eta.mean(axis=0), rtol=1e-12)
    expected = {
        "Poisson": ("mean", np.exp),
        "Normal": ("mean", np.asarray),
        "BernoulliProbit": ("probability", norm.cdf),
    }
    kind, given = expected[name]
    np.testing.assert_allclose(found[kind], given(eta).mean(axis=0), rtol=1e-9)
    drawn = pmgp.sample_predictions(idata, model=model, random_seed=1)["predictions"]
    assert drawn["y"].dims == ("chain", "draw", "point")
    assert np.isfinite(drawn["y"]).all()


def test_new_rows_are_predicted_if_observations_of_the_old_ones_were_missing():
    """The mask has the number of the old rows."""
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        group = pm.Data("group_of", [0, 1, 0])
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), dims="group")
        pm.Poisson("y", pm.math.exp(u[group]), observed=np.array([0.0, np.nan, 2.0]))
    u = np.random.default_rng(5).normal(size=(1, 6, 2))
    values = {"u": (("chain", "draw", "group"), u), "tau": (("chain", "draw"), np.ones((1, 6)))}
    draws = xr.Dataset(values, coords={"draw": np.arange(6), "group": ["a", "b"]})
    model.set_dim("group", 3, coord_values=["a", "b", "new"])
    model.set_data("group_of", np.array([2, 1, 0, 1]))
    found = pmgp.predict(xr.DataTree.from_dict({"posterior": draws}), model=model)
    known = np.exp(u[0]).mean(axis=0)
    np.testing.assert_allclose(found["mean"], [np.exp(0.5), known[1], known[0], known[1]], rtol=1e-9)


def test_coefficients_are_no_effects_whose_missing_observations_have_another_mask():
    """To know whether theta maps the coefficients, values of the other variables are needed, not those of y."""
    with pm.Model() as model:
        group, inputs = pm.Data("group_of", [0, 1, 0]), pm.Data("inputs", np.eye(3)[:, :2])
        beta = pm.Normal("beta", 0.0, 1.0, shape=2)
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=2)
        pm.Poisson("y", pm.math.exp(inputs @ beta + u[group]), observed=np.array([0.0, np.nan, 2.0]))
    u, beta = np.random.default_rng(5).normal(size=(2, 1, 6, 2))
    values = {"u": u, "beta": beta, "tau": np.ones((1, 6))}
    model.set_data("group_of", np.array([1, 0, 1, 0]))
    model.set_data("inputs", np.array([[1.0, 0.5], [0.0, 1.0], [0.0, 0.0], [2.0, 0.0]]))
    found = pmgp.predict(arviz.from_dict({"posterior": values}), model=model)
    eta = [u[0, :, 1] + beta[0] @ [1.0, 0.5], u[0, :, 0] + beta[0, :, 1], u[0, :, 1], u[0, :, 0] + 2.0 * beta[0, :, 0]]
    np.testing.assert_allclose(found["mean"], np.exp(eta).mean(axis=1), rtol=1e-9)


def test_rows_that_a_model_leaves_out_by_itself_are_not_predicted():
    kept = np.array([True, False, True, True, False])
    with pm.Model() as model:
        s = pm.AR("s", rho=[0.5], sigma=1.0, init_dist=pm.Normal.dist(0, 1), shape=5)
        pm.Poisson("y", pm.math.exp(s)[kept], observed=[0, 2, 1])
    f = np.random.default_rng(5).normal(size=(1, 6, 5))
    draws = xr.Dataset({"s": (("chain", "draw", "time"), f)}, coords={"chain": [0], "draw": np.arange(6)})
    found = pmgp.predict(xr.DataTree.from_dict({"posterior": draws}), model=model)
    np.testing.assert_allclose(found["mean"], np.exp(f[0][:, kept]).mean(axis=0), rtol=1e-9)


# Distributions that PyMC builds from others


def zero_inflated(name, eta, **shape):
    return pm.ZeroInflatedPoisson(name, 0.75, pm.math.exp(eta), **{"observed": [0, 1]} | shape)


def weights_of(eta):
    return pt.stack([pm.math.invlogit(eta), 1.0 - pm.math.invlogit(eta)], axis=-1)


MIXED = {
    "zero-inflated": (zero_inflated, lambda rate: 0.75 * rate),
    "hurdle": (
        lambda name, eta: pm.HurdlePoisson(name, 0.75, pm.math.exp(eta), observed=[0, 1]),
        lambda rate: 0.75 * rate / -np.expm1(-rate),
    ),
    "without zero": (
        lambda name, eta: pm.Truncated(name, pm.Poisson.dist(pm.math.exp(eta)), lower=1, observed=[1, 1]),
        lambda rate: rate / -np.expm1(-rate),
    ),
    "weights": (
        lambda name, eta: pm.Mixture(
            name, weights_of(eta), [pm.Poisson.dist(1.0), pm.Poisson.dist(5.0)], observed=[0, 1]
        ),
        lambda rate: (rate + 5.0) / (rate + 1.0),
    ),
    "constant components": (
        lambda name, eta: pm.Mixture(name, weights_of(eta), pm.Poisson.dist([1.0, 5.0]), observed=[0, 1]),
        lambda rate: (rate + 5.0) / (rate + 1.0),
    ),
    "mixture": (
        lambda name, eta: pm.NormalMixture(name, [0.25, 0.75], pt.stack([eta, 2.0 * eta], axis=-1), observed=[0, 1]),
        lambda rate: 1.75 * np.log(rate),
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_distributions_made_of_others_have_as_many_rows_as_their_parameters(name):
    observe, mean = MIXED[name]
    model, idata = of_two_groups(observe, draws=1000)
    rows = [1, 0, 1]
    model.set_data("group_of", np.array(rows))
    expected = mean(np.exp(np.array([0.3, -0.4])[rows]))
    found = pmgp.predict(idata, model=model)["mean"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    drawn = pmgp.sample_predictions(idata, model=model, random_seed=1)["predictions"]["y"].values[0]
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 4.5 * error)


def test_draws_of_a_distribution_with_unknown_parameters_are_refused():
    def draw(mu, size):
        return pm.Normal.dist(mu, 1.0, size=size) + 1.0

    model, idata = of_two_groups(lambda name, eta: pm.CustomDist(name, eta, dist=draw, observed=[0.0, 1.0]))
    with pytest.raises(ModelError, match=r"'y' cannot be drawn again: the parameters of CustomDist_y.* are not known"):
        pmgp.sample_predictions(idata, model=model, random_seed=1)


def test_shapes_and_observations_may_be_data_too():
    model, idata = of_two_groups(lambda name, eta: zero_inflated(name, eta, shape=eta.shape))
    model.set_data("group_of", np.array([1, 0, 1]))
    np.testing.assert_allclose(pmgp.predict(idata, model=model)["mean"], 0.75 * np.exp([-0.4, 0.3, -0.4]), rtol=1e-9)
    model, idata = of_two_groups(lambda name, eta: zero_inflated(name, eta, observed=pm.Data("labels", [0, 1])))
    model.set_data("labels", np.zeros(3, dtype=int))
    model.set_data("group_of", np.array([1, 0, 1]))
    np.testing.assert_allclose(pmgp.predict(idata, model=model)["mean"], 0.75 * np.exp([-0.4, 0.3, -0.4]), rtol=1e-9)


def test_predictors_are_given_where_observations_have_no_mean_that_is_known():
    truncated = lambda eta: pm.Poisson.dist(pm.math.exp(eta))  # noqa: E731
    model, idata = of_two_groups(lambda name, eta: pm.Truncated(name, truncated(eta), upper=99, observed=[0, 1]))
    with pytest.warns(
        UserWarning, match=r"cannot be given, only the linear predictors: the distribution of 'y' has no"
    ):
        found = pmgp.predict(idata, model=model)
    assert list(found.data_vars) == ["latent_mean", "latent_variance"]
    np.testing.assert_allclose(found["latent_mean"], [0.3, -0.4], rtol=1e-9)


def test_a_mean_that_some_draws_do_not_have_is_left_out():
    with pm.Model() as model:
        u, shape = pm.Normal("u", 0.0, pm.HalfNormal("tau"), shape=2), pm.HalfNormal("shape")
        pm.InverseGamma("y", shape, pm.math.exp(u[pm.Data("group", [0, 1])]), observed=[1.0, 2.0])
    draws = {"tau": np.ones((1, 2)), "shape": np.array([[3.0, 0.9]]), "u": np.zeros((1, 2, 2))}
    with pytest.warns(UserWarning, match="'mean' cannot be given: at some draws of the posterior"):
        found = pmgp.predict(arviz.from_dict({"posterior": draws}), model=model)
    assert list(found.data_vars) == ["latent_mean", "latent_variance"]
