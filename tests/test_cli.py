import json
import re
import subprocess
import sys
from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from rich.console import Console
from typer.testing import CliRunner

from pmgp import report, run
from pmgp.cli import app
from pmgp.report import html
from tests.synthetic_posterior import FEATURES, make_posterior

FILES = {"posterior.nc", "summary.csv", "run.json", "report.html"}
CHAIN_PLOTS = {"trace.png", "rank.png", "autocorrelation.png", "rhat.png", "lengthscale.png"}
TEST_FILES = {"predictions.csv", "calibration.png"}


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Write 60 points whose label depends on the first of two features; a third is constant."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(60, 2))
    kind = np.where(x[:, 0] + 0.3 * rng.normal(size=60) > 0, "up", "down")
    path = tmp_path_factory.mktemp("data") / "points.csv"
    columns = {"kind": kind, "a": x[:, 0], "b": x[:, 1], "c": 1.0}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def finished(csv, tmp_path_factory):
    """Run the whole command once, with few draws."""
    out = tmp_path_factory.mktemp("runs") / "points"
    result = invoke(
        *("run", csv, "--label", "kind", "--draws", 60, "--tune", 150, "--cores", 1),
        *("--seed", 3, "--test-fraction", 0.25, "--importance-samples", 16, "--out", out),
    )
    assert result.exit_code == 0, result.output
    return out, result.output


def test_a_run_leaves_all_its_files(finished):
    out, _ = finished
    assert {path.name for path in out.iterdir()} == FILES | CHAIN_PLOTS | TEST_FILES


def test_a_run_prints_summary_cost_and_scores(finished):
    _, output = finished
    for words in ["lengthscale", "r_hat", "Cholesky", "ESS a second", "AUC", "report.html"]:
        assert words in output


def test_the_draws_can_be_read_back(finished):
    out, _ = finished
    with xr.open_datatree(out / "posterior.nc", engine="h5netcdf") as idata:
        assert idata["posterior"]["f"].sizes == {"chain": 2, "draw": 60, "observation": 45}
        assert idata["sample_stats"]["indefinite"].dtype == bool
        assert float(idata["posterior"].attrs["sampling_time"]) > 0


def test_predictions_are_of_the_test_rows_and_better_than_chance(finished, csv):
    out, _ = finished
    table = pd.read_csv(out / "predictions.csv")
    source = pd.read_csv(csv)
    assert list(table) == ["row", "label", "probability", "latent_mean", "latent_sd"]
    assert len(table) == 15
    np.testing.assert_array_equal(table["label"], source["kind"][table["row"]] == "up")
    assert np.corrcoef(table["probability"], source["a"][table["row"]])[0, 1] > 0.8
    scores = json.loads((out / "run.json").read_text())["scores"]
    assert scores["accuracy"] == np.mean((table["probability"] >= 0.5) == table["label"])
    assert scores["log_loss"] < np.log(2)


def test_the_record_repeats_the_run(finished, csv):
    out, _ = finished
    record = json.loads((out / "run.json").read_text())
    assert record["settings"] == {
        "data": str(csv),
        "label": "kind",
        "out": str(out),
        "kernel": "rbf",
        "likelihood": "probit",
        "approximation": "ep",
        "estimator": "importance",
        "importance_samples": 16,
        "draws": 60,
        "tune": 150,
        "chains": 2,
        "cores": 1,
        "seed": 3,
        "test_fraction": 0.25,
    }
    assert record["command"].startswith(f"pmgp run {csv} --label kind --kernel rbf")
    assert set(record["versions"]) >= {"python", "pmgp", "pymc", "arviz"}
    assert record["operations_per_iteration"]["n_cholesky"] > 0


def test_the_page_needs_no_other_file(finished):
    out, _ = finished
    page = (out / "report.html").read_text()
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not re.search(r"https?://|@import|<script", page)


# Mistaken arguments: one line, exit code 2, nothing written.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["brest"], "did you mean breast"),
        (["absent.csv"], "no file absent.csv"),
        (["coal"], "no two classes"),
        (["crabs", "--label", "sex"], "--label is for CSV files"),
        (["crabs", "--test-fraction", "1"], "--test-fraction must be in"),
        (["crabs", "--test-fraction", "0.001"], "none of the 100 points"),
        (["crabs", "--draws", "0"], "greater than or equal to 1"),
        (["crabs", "--chains", "0"], "greater than or equal to 1"),
        (["crabs", "--kernel", "linear"], "'linear' is not one of"),
        (["crabs", "--importance-samples", "0"], "positive whole number nor auto"),
        (["crabs", "--importance-samples", "many"], "positive whole number nor auto"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.delenv("PMGP_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    result = invoke("run", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


def test_brackets_in_a_message_survive(tmp_path):
    path = tmp_path / "brackets.csv"
    path.write_text("a[1],y\nred,0\n2,1\n")
    assert "a[1]" in invoke("run", path, "--out", tmp_path / "out").output


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").touch()
    result = invoke("run", "crabs", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "is a file" in " ".join(result.output.split())


def test_traceback_is_shown_on_request():
    result = invoke("run", "brest", "--traceback")
    assert isinstance(result.exception, ValueError)


def test_version_and_list_of_data_sets():
    from pmgp import __version__

    assert invoke("--version").output.strip() == f"pmgp {__version__}"
    listing = invoke("datasets").output
    assert "breast" in listing
    assert "683" in listing


def test_help_imports_nothing_heavy():
    code = "import sys, pmgp.cli; print({'pymc', 'pandas', 'arviz'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "set()"


# Sampling that ends early, with a made-up posterior.


@pytest.fixture
def settings(csv, tmp_path):
    return run.Settings(data=str(csv), label="kind", out=tmp_path / "out", draws=400)


def sampled(monkeypatch, idata):
    monkeypatch.setattr(run, "sample", lambda model, settings: idata)


def predicted(monkeypatch):
    def predict(problem, idata):
        n = problem.test.n
        table = {"row": problem.test.rows, "label": problem.test.y, "probability": [0.5] * n}
        table |= {"latent_mean": [0.0] * n, "latent_sd": [1.0] * n}
        return pd.DataFrame(table), {"accuracy": 0.5}

    monkeypatch.setattr(run, "predict", predict)


def written(settings):
    return {path.name for path in settings.out.iterdir()}


def test_complete_draws_bring_no_notice_of_interruption(settings, monkeypatch):
    sampled(monkeypatch, make_posterior())
    predicted(monkeypatch)
    outcome = run.execute(settings, Console(quiet=True))
    assert outcome.shortfall is None
    assert "interrupted" not in (settings.out / "report.html").read_text()


@pytest.mark.parametrize(
    ("posterior", "plots"),
    [
        ({"draws": 100}, CHAIN_PLOTS),
        ({"draws": 3}, {"trace.png"}),
        ({"draws": 1, "chains": 1}, {"trace.png"}),
        ({"chains": 1, "ard": False}, CHAIN_PLOTS - {"rhat.png", "rank.png"}),
    ],
)
def test_what_an_interrupted_run_has_is_written(settings, monkeypatch, posterior, plots):
    sampled(monkeypatch, make_posterior(**posterior))
    predicted(monkeypatch)
    outcome = run.execute(settings, Console(quiet=True))
    assert "interrupted" in outcome.shortfall
    assert written(settings) == FILES | TEST_FILES | plots
    assert "Sampling was interrupted" in (settings.out / "report.html").read_text()


def test_draws_are_on_disk_before_anything_else_can_fail(settings, monkeypatch):
    def fail(problem, idata):
        raise ZeroDivisionError

    sampled(monkeypatch, make_posterior())
    monkeypatch.setattr(run, "predict", fail)
    with pytest.raises(ZeroDivisionError):
        run.execute(settings, Console(quiet=True))
    assert written(settings) == {"posterior.nc"}


def test_without_test_part_there_are_no_scores(settings, monkeypatch):
    sampled(monkeypatch, make_posterior())
    outcome = run.execute(replace(settings, test_fraction=0.0), Console(quiet=True))
    assert outcome.scores == {}
    assert written(settings) == FILES | CHAIN_PLOTS


def test_chains_that_disagree_are_noted(settings, monkeypatch):
    sampled(monkeypatch, make_posterior(shift=3.0))
    predicted(monkeypatch)
    console = Console(record=True, width=200, file=StringIO())
    run.execute(settings, console)
    note = r"note: R-hat of lengthscale\[\w+\] is \d\.\d+, above 1.01"
    assert re.search(note, console.export_text())


def test_interruption_while_tuning_says_so(settings, monkeypatch):
    import pymc as pm

    def interrupted(**options):
        raise ValueError("Not enough samples to build a trace.")

    monkeypatch.setattr(pm, "sample", interrupted)
    with pytest.raises(run.RunError, match="interrupted while tuning"):
        run.execute(settings, Console(quiet=True))


def test_an_embedded_picture_is_the_file(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG")
    assert html.Embedded("a", "A", "", path).uri == "data:image/png;base64,iVBORw=="


def test_posterior_keeps_its_groups_and_names(tmp_path):
    report.save_posterior(make_posterior(), tmp_path)
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as idata:
        assert set(idata.children) == {"posterior", "sample_stats", "observed_data"}
        assert tuple(idata["posterior"]["feature"].to_numpy()) == FEATURES
