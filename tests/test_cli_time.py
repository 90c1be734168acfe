"""``pmgp run --time``: a process in time, its trend and its forecast, from a file to a report."""

import json
import re

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import ndtr

import pmgp
from pmgp.app.problem import prepare
from pmgp.app.settings import RunError, Settings
from pmgp.app.trend import forecast_times, trend
from pmgp.core.markov import PrecisionPrior
from pmgp.interface.model.taking_apart import take_apart
from tests.test_cli import invoke

DAYS = 60


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Counts on days in no order, some of them missing, and whether they are many."""
    rng = np.random.default_rng(1)
    days = rng.permutation(np.delete(np.arange(DAYS), [7, 8, 30]))
    counts = rng.poisson(np.exp(1.0 + np.sin(days / 8.0)))
    dates = (pd.Timestamp("2024-01-01") + pd.to_timedelta(days, unit="D")).strftime("%Y-%m-%d")
    path = tmp_path_factory.mktemp("data") / "visits.csv"
    columns = {"day": dates, "visits": counts, "busy": np.where(counts > 3, "yes", "no"), "other": 1.0}
    columns["crowd"] = np.array(["few", "some", "many"])[np.digitize(counts, [2, 5])]
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def settings_for(csv, **changes):
    given = {"label": "visits", "likelihood": "poisson", "kernel": "matern32", "time": "day", "test_fraction": 0.0}
    return Settings(data=str(csv), out=csv.parent / "out", **given | changes)


def test_a_run_leaves_trend_forecast_and_report(csv, tmp_path):
    out = tmp_path / "run"
    result = invoke(
        *("run", csv, "--time", "day", "--label", "visits", "--likelihood", "poisson", "--horizon", 10),
        *("--draws", 400, "--tune", 100, "--chains", 1, "--cores", 1, "--out", out),
    )
    assert result.exit_code == 0, result.output
    assert "days since 2024-01-01" in result.output
    assert "these columns are not used: 'busy', 'other', 'crowd'" in result.output
    assert "numbers the rows" not in result.output
    assert {"trend.csv", "trend.png", "report.html", "posterior.nc"} <= {path.name for path in out.iterdir()}
    assert "<h2>Over time</h2>" in (out / "report.html").read_text()
    assert "--time day --horizon 10" in json.loads((out / "run.json").read_text())["command"]
    table = pd.read_csv(out / "trend.csv")
    np.testing.assert_array_equal(table.loc[table["forecast"], "time"], DAYS - 1.0 + np.arange(1, 11))
    assert (table["low"] < table["median"]).all()
    assert (table["median"] < table["high"]).all()
    # The interval of a count is wider than that of its mean.
    assert ((table["count_high"] - table["count_low"]) > (table["high"] - table["low"])).mean() > 0.9
    assert table["date"].iloc[-1] == "2024-03-10 00:00:00"
    assert table[["count_low", "count_high"]].dtypes.eq(np.int64).all()
    past = table[~table["forecast"]]
    truth = np.exp(1.0 + np.sin(past["time"] / 8.0))
    assert ((past["low"] < truth) & (truth < past["high"])).mean() > 0.75
    assert np.corrcoef(past["median"], truth)[0, 1] > 0.8


def made_up(problem, draws=400):
    """A posterior of known hyper-parameters, and a process that is what it is."""
    names = {"lengthscale": 0.5, "variance": 1.0, "level": 1.0}
    f = np.tile(1.0 + np.sin(problem.X_train[:, 0]), (1, draws, 1))
    columns = {name: (("chain", "draw"), np.full((1, draws), value)) for name, value in names.items()}
    columns["f"] = (("chain", "draw", "observation"), f)
    data = xr.Dataset(columns, coords={"chain": [0], "draw": np.arange(draws)})
    return xr.DataTree.from_dict({"posterior": data})


def test_the_trend_has_the_moments_of_predictions(csv):
    problem = prepare(settings_for(csv, horizon=400))
    idata = made_up(problem)
    table = trend(problem, idata)
    places = [0, 150, 299, 301, 400, len(table) - 1]
    X = problem.standardizer.transform(table["time"].to_numpy()[places, None])
    expected = pmgp.predict(idata, X, model=problem.model, progressbar=False)
    mean, deviation = expected["latent_mean"].to_numpy(), np.sqrt(expected["latent_variance"].to_numpy())
    found = np.log(table[["low", "median", "high"]].to_numpy()[places])
    normal = mean[:, None] + deviation[:, None] * np.array([-1.645, 0.0, 1.645])
    # The error of a quantile at 5% is 2.1 deviations over the root of the number of draws.
    assert (np.abs(found - normal) < 3.0 * 2.1 * deviation[:, None] / np.sqrt(400) + 1e-6).all()
    # Long after the observations it is known as without any: level 1, variance 1.
    np.testing.assert_allclose([mean[-1], deviation[-1]], 1.0, atol=1e-3)
    # A twin: the trend as if the last observation were known for ever.
    assert np.abs(found[-1] - normal[2]).max() > 6.0 * 2.1 / np.sqrt(400)


def test_the_trend_of_ordered_categories_is_their_expected_place(csv):
    """That rises with f, so that its quantiles are those of f, carried over."""
    problem = prepare(settings_for(csv, horizon=5, **ORDER))
    idata = made_up(problem)
    cutpoints = np.array([0.2, 1.1])
    rng = np.random.default_rng(2)
    shifts = 0.3 * rng.standard_normal((1, 400))
    moved = idata["posterior"].to_dataset()
    moved["f"] = moved["f"] + shifts[..., None]
    moved["cutpoints"] = ("chain", "draw", "cutpoint"), cutpoints + shifts[..., None]
    below = ndtr(moved["cutpoints"].to_numpy() / np.sqrt(2.0))
    moved["proportions"] = ("chain", "draw", "category"), np.diff(below, axis=-1, prepend=0.0, append=1.0)
    table = trend(problem, xr.DataTree.from_dict({"posterior": moved}))
    inside = table[(table["time"] > 10) & (table["time"] < 50)]
    truth = [np.interp(inside["time"], *known(problem, cut)) for cut in cutpoints]
    np.testing.assert_allclose(inside["median"], np.sum(truth, axis=0), atol=0.05)
    # f and the cut points move together.
    assert (inside["high"] - inside["low"]).max() < 0.15
    assert ((table["low"] >= 0.0) & (table["high"] <= 2.0)).all()
    # A twin that takes cut points of other draws.
    moved["cutpoints"] = moved["cutpoints"].roll(draw=1)
    twin = trend(problem, xr.DataTree.from_dict({"posterior": moved}))
    assert (twin["high"] - twin["low"]).max() > 0.5


def known(problem, cut):
    """Times, and the probability to be above a cut point where f is what :func:`made_up` says."""
    order = np.argsort(problem.train.X[:, 0])
    return problem.train.X[order, 0], ndtr(1.0 + np.sin(problem.X_train[order, 0]) - cut)


def test_the_process_is_markov_and_the_last_points_are_the_test_part(csv):
    problem = prepare(settings_for(csv, test_fraction=0.2, horizon=2))
    assert problem.train.X.max() < problem.test.X.min()
    assert problem.test.n == round(0.2 * problem.dataset.n)
    assert any("the last 11 points in time are the test part" in notice for notice in problem.notices)
    later = forecast_times(problem)
    assert set(problem.test.X[:, 0]) < set(later)
    assert later[-1] == DAYS + 1.0
    parts = take_apart(problem.model)
    assert isinstance(parts.prior(parts.initial_theta), PrecisionPrior)


ORDER = {"label": "crowd", "likelihood": "ordinal", "order": ("few", "some", "many")}


@pytest.mark.parametrize(
    "label", [{"label": "busy", "likelihood": name} for name in ("probit", "logit")] + [ORDER], ids=str
)
def test_labels_run_in_time_too(csv, label):
    problem = prepare(settings_for(csv, **label))
    parts = take_apart(problem.model)
    assert isinstance(parts.prior(parts.initial_theta), PrecisionPrior)


def test_counts_with_exposures_have_the_trend_of_their_rate(tmp_path):
    rng = np.random.default_rng(4)
    day, hours = np.arange(DAYS), rng.choice([1.0, 20.0], DAYS)
    rate = np.exp(1.0 + np.sin(day / 8.0))
    columns = {"day": day, "hours": hours, "calls": rng.poisson(hours * rate)}
    pd.DataFrame(columns).to_csv(tmp_path / "calls.csv", index=False)
    result = invoke(
        *("run", tmp_path / "calls.csv", "--time", "day", "--label", "calls", "--likelihood", "poisson"),
        *("--exposure", "hours", "--horizon", 3, "--test-fraction", 0.2, "--draws", 300, "--tune", 100),
        *("--chains", 1, "--cores", 1, "--out", tmp_path / "run"),
    )
    assert result.exit_code == 0, result.output
    trend = pd.read_csv(tmp_path / "run" / "trend.csv")
    assert "count_low" not in trend
    past = trend[trend["time"] < 48]
    truth = np.exp(1.0 + np.sin(past["time"] / 8.0))
    assert ((past["low"] < truth) & (truth < past["high"])).mean() > 0.75
    # A twin for which each day has the mean exposure: counts and not rates.
    assert np.abs(np.log(past["median"] / truth)).mean() < 0.2 < np.log(hours.mean())
    test = pd.read_csv(tmp_path / "run" / "predictions.csv")
    np.testing.assert_array_equal(test["exposure"], hours[test["row"]])
    assert np.corrcoef(test["mean"], test["exposure"])[0, 1] > 0.7


@pytest.mark.parametrize("alone", ["end", "beginning", "nowhere"])
def test_a_category_may_be_in_one_part_of_a_series_alone(csv, tmp_path, alone):
    """In the test part, which is the end, in the training part, or in none; the highest category in the first two."""
    table = pd.read_csv(csv).sort_values("day").reset_index(drop=True)
    table["crowd"] = np.where(table["visits"] > 2, "some", "few")
    if alone != "nowhere":
        table.loc[[len(table) - 2 if alone == "end" else 3], "crowd"] = "many"
    path, out = tmp_path / "crowds.csv", tmp_path / "run"
    table.to_csv(path, index=False)
    result = invoke(
        *("run", path, "--time", "day", "--label", "crowd", "--likelihood", "ordinal", "--order", "few,some,many"),
        *("--test-fraction", 0.2, "--draws", 20, "--tune", 30, "--chains", 1, "--cores", 1, "--out", out),
        *("--predict", path, "--horizon", 3),
    )
    assert result.exit_code == 0, result.output
    assert ("has the category 'many' of --order" in result.output.replace("\n", " ")) == (alone == "nowhere")
    assert {"trend.png", "categories.png", "report.html", "new_predictions.csv"} <= {one.name for one in out.iterdir()}
    predicted = pd.read_csv(out / "predictions.csv")
    assert (predicted["probability_many"] > 0).all()
    assert ("many" in set(predicted["label"])) == (alone == "end")
    scores = json.loads((out / "run.json").read_text())
    assert np.isfinite(scores["scores"]["log_loss"])
    # A frequency of 0 is an infinite loss, which JSON does not have.
    assert (scores["baseline"]["log_loss"] is None) == (alone == "end")


REFUSED = {
    "rbf": ({"kernel": "rbf"}, "--time takes --kernel matern32 or matern52, not rbf"),
    "classes": ({"likelihood": "multinomial"}, "--time is for --likelihood probit, logit, poisson and ordinal"),
    "sparse": ({"sparse": 20}, "--sparse does not go with --time"),
    "features": ({"features": ("other",)}, "--features does not go with --time: time is the only feature"),
    "horizon": ({"horizon": -1}, "--horizon must be a number of further times"),
    "no time": ({"time": None, "horizon": 3}, "--horizon is for a column of times"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_go_with_time_is_refused(csv, changes, words):
    with pytest.raises(RunError, match=re.escape(words)):
        settings_for(csv, **changes)


def test_a_column_with_one_time_is_refused(csv):
    with pytest.raises(RunError, match="'other' has fewer than three different times"):
        prepare(settings_for(csv, time="other"))
