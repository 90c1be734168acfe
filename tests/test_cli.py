import json
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from html import escape
from importlib import resources
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from fsspec.implementations.memory import MemoryFileSystem
from matplotlib.figure import Figure
from rich.console import Console
from typer.testing import CliRunner

import pmgp
from pmgp.app import report, run
from pmgp.app.cli import app
from pmgp.app.folder import RESULTS, STORE, begun, check_folder
from pmgp.app.problem import prepare
from pmgp.app.report import html, tables
from pmgp.app.settings import RunError, Settings
from pmgp.app.tasks import Scores
from pmgp.datasets.csv_columns import join_names, split_names
from pmgp.interface.sampling import report as verdict_of
from pmgp.interface.sampling.report import of_command
from pmgp.scores.counts import PredictedCounts
from tests.synthetic_posterior import FEATURES, make_posterior

FILES = {"posterior.nc", "summary.csv", "run.json", "report.html"}
CHAIN_PLOTS = {"trace.png", "rank.png", "autocorrelation.png", "rhat.png", "lengthscale.png"}
TEST_FILES = {"predictions.csv", "calibration.png"}
BOTH = {"predictions.csv", "new_predictions.csv"}


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@contextmanager
def traces_alone():
    """Leave other plots of chains blank: one run draws them, from the columns of which traces are drawn, too."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("autocorrelation", "rank", "rhat", "lengthscale"):
            patch.setattr(f"pmgp.plots.{name}", blank(name))
        yield patch


def sketched(path, out, *arguments):
    """Run a file briefly into a folder, with a test part and the file itself as new rows, and return the output."""
    few = ("--chains", 2, "--cores", 1, "--importance-samples", 16, "--test-fraction", 0.3)
    with traces_alone():
        result = invoke("run", path, "--out", out, "--predict", path, *few, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def blank(name):
    def plot(*given, **named):
        return Figure()

    plot.__name__ = name
    return plot


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
        *("run", csv, "--label", "kind", "--draws", 60, "--tune", 150, "--chains", 2, "--cores", 1),
        *("--seed", 3, "--test-fraction", 0.25, "--importance-samples", 16, "--out", out),
    )
    assert result.exit_code == 0, result.output
    return out, result.output


def assert_predicted_alike(out, size):
    """The test part is predicted as the same rows of a file that is predicted."""
    table, new = pd.read_csv(out / "predictions.csv"), pd.read_csv(out / "new_predictions.csv")
    assert list(new["row"]) == list(range(size))
    left_out = ["label", "log_density", "probability_below", "probability_up_to"]
    assert list(new) == [name for name in table if name not in left_out]
    pd.testing.assert_frame_equal(new.loc[table["row"]].reset_index(drop=True), table[list(new)])


def test_a_run_leaves_all_its_files(finished):
    out, _ = finished
    assert {path.name for path in out.iterdir()} == FILES | CHAIN_PLOTS | TEST_FILES | {STORE}


def test_a_run_prints_summary_cost_and_scores(finished):
    _, output = finished
    for words in ["lengthscale", "r_hat", "Cholesky", "ESS per second", "AUC", "report.html"]:
        assert words in output
    # Advice is for the command, once, and not for Python.
    assert output.count("not reliable yet") == 1
    assert "pmgp.sample(" not in output


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
    assert list(table) == ["row", "label", "probability", "complement", "latent_mean", "latent_sd"]
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
        "header": None,
        "features": [],
        "drop": [],
        "order": [],
        "exposure": None,
        "time": None,
        "horizon": 0,
        "missing": None,
        "predict": None,
        "workers": None,
        "cluster": None,
        "out": str(out),
        "overwrite": False,
        "resume": False,
        "kernel": "rbf",
        "likelihood": "probit",
        "approximation": "ep",
        "estimator": "auto",
        "importance_samples": 16,
        "exact_rows": None,
        "sparse": None,
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


def test_the_page_explains_covariance_and_priors(finished):
    page = (finished[0] / "report.html").read_text()
    assert "rbf: variance · exp(−r²/2)" in page
    assert re.search(r"prior of lengthscale</th><td>gamma, shape 1, scale 1\.73<", page)
    assert re.search(r"prior of variance</th><td>gamma, shape 1\.1, scale 10<", page)


def test_help_explains_covariances_and_priors():
    shown = " ".join(invoke("run", "--help").output.replace("│", " ").split())
    assert "a length-scale for each feature" in shown
    assert "Gamma(1, 1/sqrt(d))" in shown


def test_missing_cells_are_dropped_and_said(csv, tmp_path):
    """On the console and in the report, whose notices are those of the data set."""
    lines = csv.read_text().splitlines()
    lines[3] = lines[3].rsplit(",", 1)[0] + ","
    path = tmp_path / "holes.csv"
    path.write_text("\n".join(lines).replace(",", ";"))
    problem = prepare(Settings(data=str(path), label="kind", out=tmp_path / "out", missing="drop"))
    assert problem.dataset.n == 59
    said = "1 of 60 rows has missing cells and is left out (--missing drop)"
    assert said in problem.notices
    console = Console(record=True, width=200, file=StringIO())
    report.print_problem(console, problem)
    assert said in console.export_text()
    assert "--missing drop" in problem.settings.command()


def test_the_page_names_the_estimator(finished):
    out, _ = finished
    row = re.search(r"<th[^>]*>estimator</th>\s*<td[^>]*>([^<]*)</td>", (out / "report.html").read_text())
    # A number of importance samples was given, so that there was nothing to choose.
    assert row.group(1) == "importance"


@pytest.mark.parametrize(
    ("sequential", "words"),
    [
        ((False, False), "importance, chosen while tuning"),
        ((True, True), "sequential, chosen while tuning"),
        ((False, True), "sequential in 1 of 2 chains, chosen while tuning"),
    ],
)
def test_the_page_says_what_tuning_has_chosen(sequential, words, tmp_path):
    idata = make_posterior()
    chosen = np.repeat([sequential], idata["posterior"].sizes["draw"], axis=0).T
    idata["sample_stats"]["sequential"] = xr.DataArray(chosen, dims=("chain", "draw"))
    problem = SimpleNamespace(inducing=None)
    outcome = SimpleNamespace(
        settings=Settings(data="data.csv", out=tmp_path), idata=idata, problem=problem, drawn=None
    )
    assert ("estimator", words) in html._method(outcome)


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
        (["coal"], "does not have two classes"),
        (["crabs", "--label", "sex"], "--label is for CSV files"),
        (["crabs", "--drop", "sex"], "--drop is for CSV files"),
        (["crabs", "--missing", "drop"], "--missing is for CSV files"),
        (["crabs", "--no-header"], "--no-header is for CSV files"),
        (["crabs", "--likelihood", "poisson"], "--likelihood poisson is for CSV files"),
        (["crabs", "--likelihood", "ordinal"], "have two classes, for probit or logit"),
        (["crabs", "--likelihood", "multinomial"], "--likelihood multinomial is for CSV files"),
        (["absent.csv", "--order", "a,b", "--likelihood", "multinomial"], "--order is for ordered categories"),
        (["absent.csv", "--order", "a,b"], "--order is for ordered categories"),
        (["absent.csv", "--exposure", "a"], "--exposure is for counts"),
        (["absent.csv", "--features", "a", "--drop", "b"], "--features and --drop exclude each other"),
        (["concrete"], "the target of a regression"),
        (["crabs", "--test-fraction", "1"], "--test-fraction must be in"),
        (["crabs", "--test-fraction", "0.001"], "none of the 100 points"),
        (["crabs", "--draws", "0"], "Invalid value for '--draws': "),
        (["crabs", "--chains", "0"], "Invalid value for '--chains': "),
        (["crabs", "--workers", "0"], "Invalid value for '--workers': "),
        (["crabs", "--workers", "2", "--cluster", "tcp://127.0.0.1:8786"], "give one of them"),
        (["crabs", "--kernel", "linear"], "'linear' is not one of"),
        (["crabs", "--importance-samples", "0"], "positive whole number nor auto"),
        (["crabs", "--importance-samples", "many"], "positive whole number nor auto"),
        (["crabs", "--importance-samples", "8", "--estimator", "orthant"], "--importance-samples sets a number for"),
        (["crabs", "--importance-samples", "8", "--estimator", "sequential"], "--importance-samples sets a number for"),
        (["crabs", "--sparse", "9", "--estimator", "orthant"], "are for the exact chain, --sparse 0"),
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


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("1,2,0\n3,4,1\n5,6,0\n", [], "looks like a row of data"),
        ("id,a,y\n1,2,0\n3,4,1\n", ["--drop", "idd"], "did you mean 'id'"),
        ("id,a,y\n1,2,0\n3,4,1\n", ["--features", "y"], "--features names 'y', which is the label"),
        ("a,price\n1,2.5\n3,4.1\n5,3.7\n", [], "label column 'price'"),
        ("a,price\n1,2.5\n3,4.1\n5,3.7\n", ["--likelihood", "poisson"], "for counts 0, 1, 2"),
        ("a,b\n1,x\n3,y\n5,z\n", ["--likelihood", "ordinal", "--order", "x,y"], "--order leaves out 'z'"),
        ("a,n\n1,0\n3,0\n5,0\n", ["--likelihood", "poisson"], "are 0"),
        ("a,b\n1,x\n3,y\n5,z\n", [], "If they have none, use --likelihood multinomial"),
        ("a,b\n1,x\n3,y\n5,y\n", ["--likelihood", "multinomial"], "for three or more classes"),
        ("who,y\nAnn,0\nBob,1\nJo,1\n", [], "--drop who"),
    ],
)
def test_a_file_that_does_not_fit_is_one_clear_line(text, arguments, message, tmp_path):
    (tmp_path / "mine.csv").write_text(text)
    result = invoke("run", tmp_path / "mine.csv", "--out", tmp_path / "out", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


def test_brackets_in_a_message_survive(tmp_path):
    path = tmp_path / "brackets.csv"
    path.write_text("a[1],y\nred,0\n2,1\n3,1\n")
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
    code = "import sys, pmgp.app.cli; print({'pymc', 'pandas', 'arviz'} & set(sys.modules))"
    command = [sys.executable, "-c", code]
    printed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "set()"


@pytest.mark.usefixtures("without_pictures")
def test_a_run_is_stored_by_an_address(csv):
    MemoryFileSystem.store.clear()
    command = ["run", csv, "--label", "kind", "--draws", 20, "--tune", 20, "--chains", 1, "--cores", 1]
    command += ["--importance-samples", 16, "--out", "memory://bucket/points"]
    first = invoke(*command)
    assert first.exit_code == 0, first.output
    assert "report: memory://bucket/points/report.html" in first.output
    found = dict(MemoryFileSystem.store)
    assert {"report.html", "posterior.nc", "predictions.csv"} <= {name.rpartition("/")[2] for name in found}
    assert "/bucket/points/draws/run.json" in found
    again = invoke(*command)
    assert again.exit_code != 0
    assert "memory://bucket/points holds results already" in " ".join(again.output.split())
    resumed = invoke(*command, "--resume")
    assert resumed.exit_code == 0, resumed.output
    segments = [name for name in found if "segment-" in name]
    assert segments == [name for name in MemoryFileSystem.store if "segment-" in name]


# Sampling that ends early, with a made-up posterior.


@pytest.fixture
def settings(csv, tmp_path):
    return Settings(data=str(csv), label="kind", out=tmp_path / "out", draws=400, chains=2)


def sampled(monkeypatch, idata):
    monkeypatch.setattr(run, "sample", lambda model, settings: idata)


def predicted(monkeypatch):
    def predict(problem, idata):
        n = problem.test.n
        table = {"row": problem.test.rows, "label": problem.test.y, "probability": [0.5] * n}
        table |= {"complement": [0.5] * n}
        table |= {"latent_mean": [0.0] * n, "latent_sd": [1.0] * n}
        return pd.DataFrame(table), Scores({"accuracy": 0.5}, {})

    monkeypatch.setattr(run, "predict", predict)


@pytest.fixture
def without_pictures(monkeypatch):
    """Pictures take most of the time of a report."""
    monkeypatch.setattr("pmgp.app.report.files.pictures", lambda outcome: [])


def written(settings):
    return {path.name for path in settings.out.iterdir()}


def test_without_its_extra_the_command_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None; from pmgp.app.entry import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "error: the command line needs typer: pip install 'pmgp[cli]' installs all that it needs\n"


def test_the_package_says_that_it_is_typed():
    assert resources.files("pmgp").joinpath("py.typed").is_file()


@pytest.mark.usefixtures("without_pictures")
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
    assert "sampling was interrupted" in (settings.out / "report.html").read_text()


def test_draws_are_on_disk_before_anything_else_can_fail(settings, monkeypatch):
    def fail(problem, idata):
        raise ZeroDivisionError

    sampled(monkeypatch, make_posterior())
    monkeypatch.setattr(run, "predict", fail)
    with pytest.raises(ZeroDivisionError):
        run.execute(settings, Console(quiet=True))
    assert written(settings) == {"posterior.nc", "run.json"}


@pytest.mark.usefixtures("without_pictures")
def test_chains_that_disagree_are_noted(settings, monkeypatch):
    sampled(monkeypatch, make_posterior(shift=3.0))
    predicted(monkeypatch)
    console = Console(record=True, width=200, file=StringIO())
    run.execute(settings, console)
    note = r"note: R-hat of lengthscale\[\w+\] is \d\.\d+ \(at most 1.01 is good\)"
    assert re.search(note, console.export_text())


@pytest.mark.usefixtures("without_pictures")
def test_console_and_page_have_the_verdict_of_the_run(settings, monkeypatch):
    """Chains that disagree about f alone, with hyper-parameters that agree."""
    idata = make_posterior()
    idata["posterior"]["f"][0] += 1.0
    verdict = verdict_of(idata, words=of_command(settings.draws))
    assert verdict.convergence.r_hat_of.startswith("f[")
    sampled(monkeypatch, idata)
    predicted(monkeypatch)
    console = Console(record=True, width=200, file=StringIO())
    outcome = run.execute(settings, console)
    assert outcome.verdict == verdict
    page, printed = (settings.out / "report.html").read_text(), console.export_text()
    assert f"{verdict.convergence.r_hat:.3f}" in page
    for finding in verdict.findings:
        assert escape(finding) in page
        assert f"note: {finding}" in printed


def test_interruption_while_tuning_says_so(settings, monkeypatch):
    import pymc as pm

    def interrupted(**options):
        raise ValueError("Not enough samples to build a trace.")

    monkeypatch.setattr(pm, "sample", interrupted)
    with pytest.raises(RunError, match="interrupted while tuning"):
        run.execute(settings, Console(quiet=True))


def test_workers_run_the_chains(settings, monkeypatch):
    given = {}

    def dies(model, **options):
        given.update(options)
        raise pmgp.WorkerError("a worker died")

    monkeypatch.setattr("pmgp.interface.sampling.sample", dies)
    with pytest.raises(RunError, match="a worker died"):
        run.execute(replace(settings, workers=3), Console(quiet=True))
    with given["executor"]() as made:
        assert made._max_workers == 3


# The folder of the results.


def test_results_are_not_overwritten_unasked(finished, csv):
    out, _ = finished
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    result = invoke("run", csv, "--label", "kind", "--out", out)
    assert result.exit_code == 2
    message = " ".join(result.output.split())
    assert re.search(rf"{out} holds results already: report.html, run.json, posterior.nc and \d+ more", message)
    assert "--overwrite" in message
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


@pytest.mark.usefixtures("without_pictures")
def test_overwriting_replaces_all_results_and_nothing_else(settings, monkeypatch):
    settings.out.mkdir()
    (settings.out / "notes.txt").write_text("mine")
    store = settings.out / STORE
    for name in ("chain-0/draws", "chain-0/state.previous", "run.json", "start", "notes.txt"):
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_text("old")
    for name in RESULTS:
        (settings.out / name).write_text("old")
    sampled(monkeypatch, make_posterior())
    outcome = run.execute(replace(settings, test_fraction=0.0, overwrite=True), Console(quiet=True))
    assert outcome.scores == Scores({}, {})
    assert written(settings) == FILES | {"notes.txt", STORE}
    assert [path.name for path in store.iterdir()] == ["notes.txt"]
    assert (settings.out / "notes.txt").read_text() == "mine"
    assert (settings.out / "run.json").read_text() != "old"


def test_results_outlive_a_run_that_fails(settings, monkeypatch):
    def interrupted(model, settings):
        raise RunError("interrupted while tuning")

    settings.out.mkdir()
    (settings.out / "posterior.nc").write_text("old")
    monkeypatch.setattr(run, "sample", interrupted)
    with pytest.raises(RunError, match="while tuning"):
        run.execute(replace(settings, overwrite=True), Console(quiet=True))
    assert (settings.out / "posterior.nc").read_text() == "old"


def test_options_that_are_refused_leave_no_run(csv, tmp_path):
    command = ["run", csv, "--label", "kind", "--importance-samples", 7, "--out", tmp_path / "out"]
    for _ in range(2):
        result = invoke(*command)
        assert result.exit_code == 2
        assert "antithetic draws come in pairs" in result.output
    assert not list((tmp_path / "out").iterdir())


def test_an_interrupted_run_is_no_folder_to_begin_in(settings):
    (settings.out / STORE).mkdir(parents=True)
    with pytest.raises(RunError, match=r"holds results already: draws\..* continue their run with --resume"):
        check_folder(settings)
    check_folder(replace(settings, overwrite=True))
    check_folder(replace(settings, resume=True))


def test_there_must_be_something_to_resume(settings):
    with pytest.raises(RunError, match="holds no chain to continue"):
        check_folder(replace(settings, resume=True))
    with pytest.raises(RunError, match="give one of them"):
        replace(settings, resume=True, overwrite=True)


@pytest.mark.usefixtures("without_pictures")
def test_a_run_goes_on_where_it_was_interrupted(finished, csv, tmp_path, monkeypatch):
    """Interrupted while tuning, while sampling, and then made whole: the draws are those of the run without that."""
    import pymc as pm

    whole, _ = finished
    out = tmp_path / "out"
    command = ["run", csv, "--label", "kind", "--draws", 60, "--tune", 150, "--chains", 2, "--cores", 1, "--seed", 3]
    command += ["--test-fraction", 0.25, "--importance-samples", 16, "--out", out]
    sample = pm.sample

    def interrupted_at(iteration):
        def callback(trace, draw):
            if draw.draw_idx == iteration:
                raise KeyboardInterrupt

        monkeypatch.setattr(pm, "sample", lambda **options: sample(**options, callback=callback))

    interrupted_at(100)
    result = invoke(*command)
    assert result.exit_code == 2
    assert "interrupted while tuning, so there are no draws; the same command with --resume continues" in " ".join(
        result.output.split()
    )
    interrupted_at(180)
    assert "sampling was interrupted" in invoke(*command, "--resume").output
    monkeypatch.setattr(pm, "sample", sample)
    # An interruption after sampling keeps the draws, and what they were made with.
    with monkeypatch.context() as patch:
        patch.setattr("pmgp.app.run.predict", interrupted)
        result = invoke(*command, "--resume")
    assert result.exit_code == 130
    assert "interrupted: the draws are kept, and the same command with --resume goes on" in one_line(result)
    assert "was begun with --tune 150, and not with --tune 100" in one_line(invoke(*command, "--resume", "--tune", 100))
    result = invoke(*command, "--resume")
    assert result.exit_code == 0, result.output
    with (
        xr.open_datatree(out / "posterior.nc", engine="h5netcdf") as resumed,
        xr.open_datatree(whole / "posterior.nc", engine="h5netcdf") as expected,
    ):
        for name, values in expected["posterior"].data_vars.items():
            np.testing.assert_array_equal(resumed["posterior"][name], values)
    # Rows may be predicted later, with columns in another order and no label.
    rows = pd.read_csv(csv)[["c", "b", "a"]]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    result = invoke(*command, "--resume", "--predict", tmp_path / "rows.csv")
    assert result.exit_code == 0, result.output
    assert "60, predicted in new_predictions.csv" in result.output
    assert_predicted_alike(out, size=60)
    refused = invoke(*command, "--resume", "--tune", 100)
    assert "was begun with --tune 150, and not with --tune 100" in " ".join(refused.output.split())
    refused = invoke(*command, "--resume", "--kernel", "ard")
    assert "was begun with --kernel rbf, and not with --kernel ard" in " ".join(refused.output.split())
    refused = invoke(*command, "--resume", "--draws", 10)
    assert re.search(r"was given --draws \d+: give as many now, or more", " ".join(refused.output.split()))
    # Scores of a finished run are not those of one that goes on.
    assert "scores" in json.loads((out / "run.json").read_text())
    monkeypatch.setattr("pmgp.app.run.predict", interrupted)
    assert invoke(*command, "--resume").exit_code == 130
    assert set(json.loads((out / "run.json").read_text())) == {"command", "options"}
    assert not (out / "report.html").exists()


def interrupted(*arguments):
    raise KeyboardInterrupt


def one_line(result) -> str:
    return " ".join(result.output.split())


def test_an_interruption_before_sampling_says_that_nothing_is_kept(csv, tmp_path, monkeypatch):
    monkeypatch.setattr("pmgp.app.run.sample", interrupted)
    result = invoke("run", csv, "--label", "kind", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "interrupted before there were any new draws" in one_line(result)


def test_independent_draws_that_are_interrupted_later_are_named(tmp_path, monkeypatch):
    x = np.linspace(0.0, 1.0, 40)
    rows = pd.DataFrame({"x": x, "y": np.sin(6.0 * x) + 0.1 * np.random.default_rng(1).normal(size=40)})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr("pmgp.app.run.predict", interrupted)
    result = invoke("run", tmp_path / "rows.csv", "--likelihood", "normal", "--out", tmp_path / "out")
    assert result.exit_code == 130
    assert "posterior.nc, and the same command with --overwrite repeats the run" in one_line(result)
    assert (tmp_path / "out" / "posterior.nc").is_file()


def test_damaged_options_are_named(tmp_path):
    (tmp_path / "run.json").write_text('{"command": ')
    with pytest.raises(RunError, match=r"run.json is damaged .*: delete it, and give the options with which"):
        begun(tmp_path)


def test_a_folder_without_results_is_fine(settings):
    check_folder(settings)
    settings.out.mkdir()
    check_folder(settings)
    (settings.out / "notes.txt").touch()
    check_folder(settings)


def test_data_are_not_replaced_by_results(settings, csv):
    data = settings.out / "predictions.csv"
    settings.out.mkdir()
    data.write_text(csv.read_text())
    for given in ("data", "predict"):
        with pytest.raises(RunError, match="would be overwritten by the results"):
            check_folder(replace(settings, **{given: str(data)}, overwrite=True))


def test_every_file_that_a_run_writes_is_known():
    others = {"counts.png", "categories.png", "classes.png", "measurements.png", "trend.csv", "trend.png"}
    assert FILES | CHAIN_PLOTS | TEST_FILES | BOTH | others == set(RESULTS)


# Options of a file.


@pytest.mark.parametrize("names", [("a", "b"), ("a b", "c, d"), ('say "a"', "e"), ()])
def test_lists_of_names_are_read_as_they_are_written(names):
    assert split_names(join_names(names)) == names


def test_the_command_repeats_all_options_of_a_file(tmp_path, monkeypatch):
    import shlex

    given = Settings(
        data="a b.csv",
        out=tmp_path / "out",
        label="y",
        header=False,
        drop=("id", "last, first"),
        order=("low", "high"),
        likelihood="ordinal",
    )
    words = shlex.split(given.command())
    read = []
    monkeypatch.setattr(run, "execute", lambda settings, console: read.append(settings))
    result = invoke(*words[1:])
    assert result.exit_code == 0, result.output
    assert read == [replace(given, overwrite=True)]
    counts = Settings(data="a.csv", out=tmp_path, features=("a",), exposure="t", header=True, likelihood="poisson")
    invoke(*shlex.split(counts.command())[1:])
    assert read[1] == replace(counts, overwrite=True)


@pytest.mark.usefixtures("without_pictures")
def test_notices_of_the_file_are_printed_and_written(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    rows = [f"{k},{['red', 'green', 'blue'][k % 3]},{'FM'[k % 2]},{k % 2}" for k in range(20)]
    path.write_text("\n".join(["id,color,sex,y", *rows]))
    sampled(monkeypatch, make_posterior())
    predicted(monkeypatch)
    console = Console(record=True, width=200, file=StringIO())
    out = tmp_path / "out"
    run.execute(Settings(data=str(path), out=out, draws=400), console)
    notice = "column 'id' numbers the rows; if it is not a feature, leave it out with --drop id"
    assert notice in console.export_text()
    assert notice[1:].replace("'", "&#39;") in (out / "report.html").read_text()
    record = json.loads((out / "run.json").read_text())
    assert notice in record["notices"]
    assert record["data"] == {
        "label": "y",
        "classes": ["0", "1"],
        "columns": ["id", "color=blue", "color=green", "color=red", "sex=M"],
        "categories": {
            "color": {"blue": [1, 0, 0], "green": [0, 1, 0], "red": [0, 0, 1]},
            "sex": {"F": [0], "M": [1]},
        },
    }
    page = (out / "report.html").read_text()
    assert "blue, green, red; each has a column that is 1 for its rows and 0 for others" in page
    assert "F 0, M 1" in page
    assert "3 (5 columns with the categories), standardized" in page


# Many points.


@pytest.fixture(scope="module")
def approximated(csv, tmp_path_factory):
    """Run on inducing inputs once, chosen by size."""
    out = tmp_path_factory.mktemp("runs") / "points"
    with traces_alone() as patch:
        patch.setattr("pmgp.interface.recommendation.MANY_POINTS", 40)
        result = invoke(
            *("run", csv, "--label", "kind", "--draws", 40, "--tune", 80, "--chains", 2, "--cores", 1),
            *("--test-fraction", 0.25, "--out", out),
        )
    assert result.exit_code == 0, result.output
    return out, result.output


def test_many_points_are_approximated_and_that_is_said(approximated):
    out, output = approximated
    said = "45 training points are approximated with 10 inducing inputs, because the exact chain takes more than five"
    assert said in output
    page, record = (out / "report.html").read_text(), json.loads((out / "run.json").read_text())
    assert said in page
    assert "an approximation of the posterior" in page
    assert "Exact posterior draws" not in page
    assert record["settings"]["sparse"] is None
    [diagnosis] = [notice for notice in record["notices"] if "10 inducing inputs leave" in notice]
    wanted = re.search(r"Use about (\d+) inducing inputs, and .* \(--sparse (\d+)\)$", diagnosis)
    assert wanted is not None, diagnosis
    assert wanted[1] == wanted[2]
    with xr.open_datatree(out / "posterior.nc", engine="h5netcdf") as idata:
        assert idata["posterior"]["f_rotated_"].shape == (2, 40, 10)


@pytest.mark.parametrize(("rate", "shown"), [(0.0271, "0.027"), (0.5, "0.5"), (3.14, "3.1"), (120.0, "120.0")])
def test_slow_chains_have_more_than_no_draws_a_second(rate, shown):
    assert tables.a_second(rate) == shown


def test_predictions_on_inducing_inputs_are_of_the_test_rows_and_better_than_chance(approximated):
    out, _ = approximated
    assert {path.name for path in out.iterdir()} == FILES | CHAIN_PLOTS | TEST_FILES | {STORE}
    table = pd.read_csv(out / "predictions.csv")
    assert len(table) == 15
    assert ((table["probability"] > 0.5) == table["label"]).mean() > 0.7


def test_inducing_inputs_can_be_asked_for_or_refused(csv, tmp_path, monkeypatch):
    monkeypatch.setattr("pmgp.interface.recommendation.MANY_POINTS", 40)

    def prepared(number, likelihood="probit"):
        return prepare(Settings(str(csv), tmp_path, label="kind", sparse=number, likelihood=likelihood))

    assert prepared(0).inducing is None
    assert not prepared(0).notices[1:]
    asked = prepared(7)
    assert asked.inducing.shape == (7, 3)
    assert asked.notices[-1].startswith("48 training points are approximated with 7 inducing inputs: the draws come")
    assert "--sparse 7" in asked.settings.command()
    with pytest.raises(RunError, match="--sparse 49 asks for more inducing inputs than the 48 different points"):
        prepared(49)
    with pytest.raises(RunError, match="--sparse must be a number of inducing inputs, or 0 for none, not -1"):
        prepared(-1)


# Counts and ordered categories.


@pytest.fixture(scope="module")
def counts_csv(tmp_path_factory):
    """Write 50 counts whose rate depends on the first feature, with exposures; no header."""
    rng = np.random.default_rng(3)
    x, hours = rng.normal(size=(50, 2)).round(3), rng.uniform(1, 9, size=50).round(1)
    y = rng.poisson(hours * np.exp(0.5 + x[:, 0]))
    path = tmp_path_factory.mktemp("data") / "calls.csv"
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "hours": hours, "calls": y}).to_csv(path, index=False, header=False)
    return path


@pytest.fixture(scope="module")
def counted(counts_csv, tmp_path_factory):
    """Run counts with exposures once."""
    out = tmp_path_factory.mktemp("runs") / "calls"
    settings = ("--no-header", "--likelihood", "poisson", "--exposure", "x3", "--draws", 40, "--tune", 80)
    return out, sketched(counts_csv, out, *settings)


def test_counts_are_predicted_with_their_exposure(counted, counts_csv):
    out, _ = counted
    table = pd.read_csv(out / "predictions.csv")
    source = pd.read_csv(counts_csv, header=None)
    assert list(table)[:7] == ["row", "label", "exposure", "mean", "low", "high", "log_density"]
    assert len(table) == 15
    np.testing.assert_array_equal(table["label"], source[3][table["row"]])
    np.testing.assert_array_equal(table["exposure"], source[2][table["row"]])
    # The rate was 1.65 exp(a) an hour.
    rate = 1.65 * np.exp(source[0][table["row"]].to_numpy())
    assert np.sqrt(np.square(np.log(table["mean"] / table["exposure"] / rate)).mean()) < 0.5
    distribution = PredictedCounts.log_normal(table["latent_mean"], table["latent_sd"] ** 2, table["exposure"])
    np.testing.assert_allclose(table["log_density"], distribution.log_density(table["label"]))
    np.testing.assert_allclose(table["probability_up_to"], distribution.cumulative(table["label"]))
    np.testing.assert_allclose(table["probability_below"], distribution.cumulative(table["label"] - 1))
    np.testing.assert_array_equal(table["high"], distribution.quantile(0.95))


def test_counts_are_scored_beside_a_constant_rate(counted, counts_csv):
    from scipy.stats import poisson

    out, output = counted
    record = json.loads((out / "run.json").read_text())
    source, table = pd.read_csv(counts_csv, header=None), pd.read_csv(out / "predictions.csv")
    train = source.drop(index=table["row"])
    constant = train[3].sum() / train[2].sum() * table["exposure"]
    assert record["baseline"]["log_density"] == pytest.approx(poisson.logpmf(table["label"], constant).mean())
    assert record["baseline"]["mean_absolute_error"] == pytest.approx(np.abs(table["label"] - constant).mean())
    assert record["scores"]["log_density"] == pytest.approx(table["log_density"].mean())
    assert record["scores"]["log_density"] > record["baseline"]["log_density"]
    assert record["scores"]["root_mean_squared_error"] < record["baseline"]["root_mean_squared_error"]
    assert "constant rate:" in output
    assert "level" in output


def test_counts_have_their_picture_and_report(counted):
    out, _ = counted
    assert_predicted_alike(out, size=50)
    assert {path.name for path in out.iterdir()} == FILES | CHAIN_PLOTS | BOTH | {"counts.png", STORE}
    page = (out / "report.html").read_text()
    assert "Predicted and observed counts" in page
    assert "calls: Gaussian process Poisson regression" in page
    assert "x3, 1" in page


@pytest.fixture(scope="module")
def ordered_csv(tmp_path_factory):
    """Write 60 grades of three kinds that rise with the first feature."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 2)).round(3)
    grade = np.array(["low", "medium", "high"])[np.digitize(2 * x[:, 0] + 0.5 * rng.normal(size=60), [-1, 1])]
    path = tmp_path_factory.mktemp("data") / "grades.csv"
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "grade": grade}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def ordered(ordered_csv, tmp_path_factory):
    """Run ordered categories once."""
    out = tmp_path_factory.mktemp("runs") / "grades"
    settings = ("--likelihood", "ordinal", "--order", "low,medium,high", "--draws", 20, "--tune", 30)
    return out, sketched(ordered_csv, out, *settings)


@pytest.mark.parametrize("order", ["none,low,medium,high", "low,medium,most,high"])
def test_a_category_without_rows_is_predicted_and_noticed(ordered_csv, tmp_path, order):
    out = tmp_path / "run"
    sketched(ordered_csv, out, "--likelihood", "ordinal", "--order", order, "--draws", 20, "--tune", 30)
    names = order.split(",")
    (empty,) = set(names) - {"low", "medium", "high"}
    for file in ("predictions.csv", "new_predictions.csv"):
        probabilities = pd.read_csv(out / file)[[f"probability_{name}" for name in names]]
        np.testing.assert_allclose(probabilities.sum(axis=1), 1)
        assert 0 < probabilities[f"probability_{empty}"].mean() < 0.2
    record = json.loads((out / "run.json").read_text())
    assert record["data"]["classes"] == names
    assert all(np.isfinite(list(record[scores].values())).all() for scores in ("scores", "baseline"))
    assert any(f"has the category '{empty}' of --order" in notice for notice in record["notices"])
    page = (out / "report.html").read_text()
    assert f"{empty} (0)" in page
    assert (out / "categories.png").is_file()


def test_ordered_categories_are_predicted_by_their_names(ordered, ordered_csv):
    out, output = ordered
    table, source = pd.read_csv(out / "predictions.csv"), pd.read_csv(ordered_csv)
    probabilities = table[["probability_low", "probability_medium", "probability_high"]]
    assert list(table)[:6] == ["row", "label", "most_probable", *probabilities]
    assert list(table["label"]) == list(source["grade"][table["row"]])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    largest = probabilities.idxmax(axis=1).str.removeprefix("probability_")
    assert list(table["most_probable"]) == list(largest)
    record = json.loads((out / "run.json").read_text())
    assert record["scores"]["accuracy"] == np.mean(table["label"] == table["most_probable"])
    train = source.drop(index=table["row"])["grade"].value_counts(normalize=True)
    assert record["baseline"]["log_loss"] == pytest.approx(-np.log(train[table["label"]]).mean())
    assert record["scores"]["ranked_probability_score"] < record["baseline"]["ranked_probability_score"]
    assert "cutpoints[low | medium]" in output


def test_ordered_categories_have_their_picture_and_report(ordered):
    out, _ = ordered
    assert_predicted_alike(out, size=60)
    assert {path.name for path in out.iterdir()} == FILES | CHAIN_PLOTS | BOTH | {"categories.png", STORE}
    assert re.search(r"low \(\d+\) &lt; medium \(\d+\) &lt; high \(\d+\)", (out / "report.html").read_text())
    assert "--order low,medium,high" in (out / "report.html").read_text()


@pytest.fixture(scope="module")
def classes_csv(tmp_path_factory):
    """Write 60 points about three centers, the kind of each without an order."""
    rng = np.random.default_rng(6)
    kind = np.arange(60) % 3
    x = (np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])[kind] + 0.6 * rng.normal(size=(60, 2))).round(3)
    path = tmp_path_factory.mktemp("data") / "trees.csv"
    pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "tree": np.array(["oak", "ash", "elm"])[kind]}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def classified(classes_csv, tmp_path_factory):
    """Run classes without an order once."""
    out = tmp_path_factory.mktemp("runs") / "trees"
    return out, sketched(classes_csv, out, "--likelihood", "multinomial", "--draws", 20, "--tune", 30)


def test_classes_are_predicted_by_their_names(classified, classes_csv):
    out, output = classified
    table, source = pd.read_csv(out / "predictions.csv"), pd.read_csv(classes_csv)
    probabilities = table[["probability_ash", "probability_elm", "probability_oak"]]
    assert list(table)[:8] == ["row", "label", "most_probable", *probabilities, "latent_mean_ash", "latent_sd_ash"]
    assert list(table["label"]) == list(source["tree"][table["row"]])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert list(table["most_probable"]) == list(probabilities.idxmax(axis=1).str.removeprefix("probability_"))
    # The latent function of a class that is observed is the largest one.
    latent = table[["latent_mean_ash", "latent_mean_elm", "latent_mean_oak"]].set_axis(["ash", "elm", "oak"], axis=1)
    assert (latent.idxmax(axis=1) == table["label"]).mean() > 0.8
    assert "ash (14), elm (14), oak (14) of tree (training points), without an order" in " ".join(output.split())


def test_classes_are_scored_beside_their_frequencies(classified):
    out, output = classified
    table = pd.read_csv(out / "predictions.csv")
    record = json.loads((out / "run.json").read_text())
    assert record["scores"]["accuracy"] == np.mean(table["label"] == table["most_probable"]) > 0.8
    # Six test points of each class.
    assert record["scores"]["balanced_accuracy"] == pytest.approx(record["scores"]["accuracy"])
    own = [row[f"probability_{row['label']}"] for _, row in table.iterrows()]
    assert record["scores"]["log_loss"] == pytest.approx(-np.log(own).mean())
    assert record["baseline"]["log_loss"] == pytest.approx(np.log(3))
    assert record["baseline"]["brier_score"] == pytest.approx(2 / 3)
    assert record["scores"]["brier_score"] < record["baseline"]["brier_score"]
    assert "balanced accuracy" in output


def test_classes_have_their_picture_and_report(classified):
    out, _ = classified
    assert_predicted_alike(out, size=60)
    assert {path.name for path in out.iterdir()} == FILES | CHAIN_PLOTS | BOTH | {"classes.png", STORE}
    page = (out / "report.html").read_text()
    assert "Predicted classes of the test part" in page
    assert "trees: Gaussian process classification of several classes" in page
    assert "--likelihood multinomial" in page


def test_each_likelihood_has_its_kind_of_label(counts_csv, tmp_path):
    problem = prepare(Settings(data=str(counts_csv), out=tmp_path, header=False, exposure="x3", likelihood="poisson"))
    assert problem.dataset.feature_names == ("x1", "x2")
    assert problem.X_train.shape == (40, 2)
    np.testing.assert_allclose(problem.X_train.std(axis=0), 1)
    assert ("exposure", "x3") in [(name, text.split(",")[0]) for name, text in tables.data_rows(problem)]


def test_an_embedded_picture_is_the_file(tmp_path):
    path = tmp_path / "a.png"
    path.write_bytes(b"\x89PNG")
    assert html.Embedded("a", "A", "", path).uri == "data:image/png;base64,iVBORw=="


def test_posterior_keeps_its_groups_and_names(tmp_path):
    report.save_posterior(make_posterior(), tmp_path)
    with xr.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as idata:
        assert set(idata.children) == {"posterior", "sample_stats", "observed_data"}
        assert tuple(idata["posterior"]["feature"].to_numpy()) == FEATURES
