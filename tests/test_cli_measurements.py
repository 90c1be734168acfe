"""``pmgp run`` for measurements: independent draws, the maximum where there are many points, and a chain."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm
from typer.testing import CliRunner

from pmgp.app import run
from pmgp.app.cli import app
from pmgp.app.problem import prepare
from pmgp.app.report import html
from pmgp.app.settings import Settings
from pmgp.interface import sampling
from pmgp.interface.sampling import weighted
from tests.test_cli import assert_predicted_alike

N = 100
COLUMNS = ["row", "label", "mean", "sd", "low", "high", "log_density", "latent_mean", "latent_sd"]
FILES = {"posterior.nc", "summary.csv", "run.json", "report.html", "predictions.csv", "measurements.png"}


def invoke(*arguments):
    return CliRunner().invoke(app, ["run", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Write measurements of a function of the first of two features, with noise of deviation 2."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2.0, 2.0, (N, 2))
    force = 50.0 + 10.0 * np.sin(2.0 * x[:, 0]) + 2.0 * rng.standard_normal(N)
    path = tmp_path_factory.mktemp("data") / "forces.csv"
    pd.DataFrame({"depth": x[:, 0], "speed": x[:, 1], "force": force}).to_csv(path, index=False)
    return path


def finished(csv, out, *options):
    result = invoke(csv, "--likelihood", "normal", "--kernel", "ard", "--out", out, *options)
    assert result.exit_code == 0, result.output
    return out, " ".join(result.output.split())


@pytest.fixture(scope="module")
def drawn(csv, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "drawn"
    return finished(csv, out, "--draws", 200, "--chains", 2, "--predict", csv)


@pytest.fixture(scope="module")
def maximum(csv, tmp_path_factory):
    return finished(csv, tmp_path_factory.mktemp("runs") / "maximum", "--exact-rows", 60)


@pytest.mark.parametrize("kind", ["drawn", "maximum"])
def test_predictions_are_scored_and_as_good_as_the_noise_allows(kind, csv, request):
    out, _ = request.getfixturevalue(kind)
    table, source = pd.read_csv(out / "predictions.csv"), pd.read_csv(csv)
    assert list(table) == COLUMNS
    np.testing.assert_allclose(table["label"], source["force"][table["row"]])
    np.testing.assert_allclose(table["log_density"], norm.logpdf(table["label"], table["mean"], table["sd"]))
    np.testing.assert_allclose(table["high"], norm.ppf(0.95, table["mean"], table["sd"]))
    record = json.loads((out / "run.json").read_text())
    error = np.sqrt(np.mean((table["label"] - table["mean"]) ** 2))
    assert record["scores"]["root_mean_squared_error"] == pytest.approx(error)
    assert error < 3.5 < 6.0 < record["baseline"]["root_mean_squared_error"]
    assert record["scores"]["log_density"] > record["baseline"]["log_density"] + 0.5


def test_hyperparameters_are_drawn_where_that_is_affordable(drawn):
    out, output = drawn
    assert {path.name for path in out.iterdir()} == FILES | {"lengthscale.png", "new_predictions.csv"}
    assert_predicted_alike(out, size=N)
    with xr.open_datatree(out / "posterior.nc", engine="h5netcdf") as idata:
        assert idata["posterior"].sizes["draw"] >= 400
        assert 1.0 < float(idata["posterior"]["noise"].mean()) < 3.0
        assert idata.attrs["trusted"] == 1
    page = (out / "report.html").read_text()
    assert "Independent draws of the hyper-parameters, by importance sampling" in page
    assert "Convergence" not in page
    assert "): reliable" in output
    assert "--exact-rows" not in output


def test_hyperparameters_are_at_their_maximum_where_it_is_not(maximum, drawn):
    out, output = maximum
    assert {path.name for path in out.iterdir()} == FILES
    page = (out / "report.html").read_text()
    for words in (
        "80 training points are more than 60, so the hyper-parameters are set to their maximum",
        "predictions leave out their uncertainty",
    ):
        assert words in page
        assert words in output
    assert "gradients by conjugate gradients" in page
    summary = pd.read_csv(out / "summary.csv", index_col="variable")
    assert list(summary) == ["maximum"]
    of_draws = pd.read_csv(drawn[0] / "summary.csv", index_col="variable")
    assert list(summary.index) == list(of_draws.index)
    assert summary.index[0] == "lengthscale[depth]"
    assert abs(summary["maximum"]["noise"] - of_draws["mean"]["noise"]) < 2.0 * of_draws["sd"]["noise"]


def test_the_command_repeats_the_run(maximum, csv):
    command = json.loads((maximum[0] / "run.json").read_text())["command"]
    assert f"run {csv}" in command
    assert "--likelihood normal" in command
    assert "--exact-rows 60" in command


def test_a_chain_runs_if_weights_cannot_be_trusted(csv, tmp_path, monkeypatch):
    """With the recommended step method, whose own tests are elsewhere."""
    given = {}
    monkeypatch.setattr(weighted, "weighted", lambda *args, **options: None)
    monkeypatch.setattr(sampling, "sample", lambda model, **options: given.update(options))
    settings = Settings(data=str(csv), likelihood="normal", out=tmp_path / "chain")
    problem = prepare(settings)
    assert problem.task.drawn(problem) is None
    run.sample(problem.model, settings)
    assert given["step"] is None
    assert given["out"] == str(tmp_path / "chain" / "draws")
    assert "Exact posterior draws of the hyper-parameters by MCMC" in html._lead(
        SimpleNamespace(drawn=None, settings=settings)
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--time", "depth", "--kernel", "matern32"], "--time does not go with --likelihood normal: write the model"),
        (["--sparse", 10], "--sparse does not go with --likelihood normal: with normal noise the density"),
        (["--importance-samples", 16], "--importance-samples does not go with --likelihood normal"),
        (["--exposure", "depth"], "--exposure is for counts"),
        (["--likelihood", "probit", "--exact-rows", 10], "--exact-rows is for measurements, --likelihood normal"),
        (["--likelihood", "probit"], "with normal noise use --likelihood normal"),
    ],
)
def test_options_that_do_not_fit_are_refused(csv, options, said, tmp_path):
    result = invoke(csv, "--out", tmp_path / "out", "--likelihood", "normal", *options)
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_named_data_take_the_likelihood_of_their_outputs(tmp_path):
    for name, likelihood, said in (
        ("crabs", "normal", "crabs has two classes. Use --likelihood probit or logit"),
        ("concrete", "probit", "measurements, the target of a regression. Use --likelihood normal"),
    ):
        result = invoke(name, "--likelihood", likelihood, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert said in " ".join(result.output.split())
