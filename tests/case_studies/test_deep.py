"""The study of deep processes: its data, a cell of each kind, and what is stored."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from case_studies.deep import calibration, composition, results, rivals, study, training
from case_studies.deep.__main__ import main
from case_studies.deep.study import SCALES, Cell, Scale, cells
from case_studies.deep.training import Length
from case_studies.tools import data

TINY = Scale(
    "tiny", 1, 1, 20, Length(20, 10, 30), Length(20, 10, 30), 2, ("concrete",), (3,), (10,), (30, 40),
    composition.Chain(1, 5, 5), calibration.Budget(30, 1, 5, 5),
)  # fmt: skip


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A folder with small files of a regression and of labels, the latter with a row in which a sensor failed."""
    rng = np.random.default_rng(1)
    X = rng.normal(3.0, 2.0, size=(80, 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    frame.assign(y=5.0 + X[:, 0]).to_csv(tmp_path / data.FILES["concrete"], index=False)
    frame.loc[7, "a"] = 1e6
    frame.assign(y=np.where(X[:, 0] > 3.0, 1, -1)).to_csv(tmp_path / data.FILES["eeg"], index=False)
    monkeypatch.setenv("PMGP_DATA", str(tmp_path))
    return tmp_path


def test_splits_are_standardized_by_what_is_seen(folder):
    found = data.load("concrete", 0, 1, 0.75, 10)
    assert (found.X.shape, found.X_new.shape) == ((60, 2), (10, 2))
    assert found.X.mean(axis=0) == pytest.approx([0.0, 0.0], abs=1e-12)
    assert (found.y.mean(), found.y.std()) == pytest.approx((0.0, 1.0))
    assert not np.array_equal(found.y, data.load("concrete", 1, 1, 0.75, 10).y)
    assert data.available("eeg")
    assert not data.available("mnist")


def test_rows_of_a_failed_sensor_are_left_out_and_labels_are_zero_and_one(folder):
    found = data.load("eeg", 0, 1, 0.75, 100)
    assert len(found.y) + len(found.y_new) == 79
    assert set(found.y) == {0.0, 1.0}
    assert np.abs(found.X_new).max() < 10.0


def test_the_study_is_run_once_and_says_which_files_are_absent(folder, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(SCALES, "quick", TINY)
    line = {"step": 10, "bound": -1.0, "heldout": -1.1, "seconds": 2.0, "error": 0.5, "nll": 0.9}
    calls = []

    def curve(given, length, split, seed, folder):
        calls.append(given)
        return [line, line | {"step": 20, "seconds": 2.5}]

    monkeypatch.setattr(study, "curve", curve)
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path), "--method", "prior-fixed", "ARC", "--layers"]
    main([*words, "2"])
    assert len(calls) == 3  # concrete by both methods, and eeg by one
    assert "credit, powerplant, protein, spam" in capsys.readouterr().out
    stored = pd.read_csv(tmp_path / "tiny.csv")
    assert stored["per_thousand"].to_numpy() == pytest.approx(50.0)
    assert len(pd.read_csv(tmp_path / "tiny_curves.csv")) == 6
    main([*words, "2"])
    assert len(calls) == 3
    assert "0 units to run" in capsys.readouterr().out


@pytest.fixture(scope="module")
def line():
    """A line with noise of known size, and a half-plane of labels."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 2))
    y = X[:, 0] + 0.3 * rng.normal(size=120)
    return data.Data(X[:80], y[:80], X[80:], y[80:])


def test_rivals_find_a_line_and_a_half_plane(line):
    """Errors and densities are near those of the truth, and labels that are turned around are the twin."""
    noise = rivals.RIVALS["GP"](line, False, (60, 80), 1)
    assert noise["error"] == pytest.approx(0.3, rel=0.25)
    assert noise["nll"] == pytest.approx(np.log(0.3) + 0.5 * np.log(2 * np.pi) + 0.5, abs=0.25)
    labels = line._replace(y=1.0 * (line.y > 0), y_new=1.0 * (line.y_new > 0))
    for name in rivals.RIVALS:
        assert rivals.RIVALS[name](labels, True, (60, 80), 1)["error"] < 0.3
    turned = labels._replace(y_new=1.0 - labels.y_new)
    assert rivals.RIVALS["trees"](turned, True, (60, 80), 1)["error"] > 0.7


class Stub:
    """A process whose fit writes the number of its steps, and fails where it is told to."""

    fails_at = None

    def __init__(self, steps, **given):
        self.steps = steps

    def fit(self, X, y, checkpoint, progressbar):
        before = int(checkpoint.read_text()) if checkpoint.exists() else 0
        checkpoint.write_text(str(self.steps))
        if self.steps == self.fails_at:
            raise KeyboardInterrupt
        self.history_ = [{"step": self.steps, "taken": self.steps - before}]


def test_a_curve_that_is_stopped_goes_on_from_its_last_block(line, monkeypatch, tmp_path):
    """Steps of the block that was stopped are taken again, since their seconds are unknown."""
    monkeypatch.setattr(training.pmgp.deep, "RandomFeatureGP", Stub)
    monkeypatch.setattr(training, "scores", lambda process, data: {"error": 1.0})
    monkeypatch.setattr(Stub, "fails_at", 20)
    with pytest.raises(KeyboardInterrupt):
        training.curve({}, Length(30, 10), line, 1, tmp_path)
    monkeypatch.setattr(Stub, "fails_at", None)
    found = training.curve({}, Length(30, 10), line, 1, tmp_path)
    assert [(one["step"], one["taken"]) for one in found] == [(10, 10), (20, 10), (30, 10)]
    assert np.all(np.diff([one["seconds"] for one in found]) > 0)
    assert training.curve({}, Length(30, 10), line, 1, tmp_path) == found
    assert training.curve({}, Length(30, 10), line, 1, tmp_path / "another")[-1]["seconds"] != found[-1]["seconds"]


# ---- what is stored


@pytest.fixture(scope="module")
def stored():
    return results.lines(results.FOLDER, "quick").read()


@pytest.fixture(scope="module")
def curves():
    return results.curves(results.FOLDER, "quick").read().set_index(["data", "method", "layers", "features"])


def test_stored_lines_are_of_the_study(stored):
    scale = SCALES["quick"]
    keys = set(stored[list(Cell._fields)].itertuples(index=False, name=None))
    assert keys <= {tuple(cell) for cell in cells(scale)}
    assert len(results.missing(results.FOLDER, scale, cells(scale))) == len(cells(scale)) - len(stored)


@pytest.mark.parametrize("layers", [1, 2])
def test_learned_frequencies_overfit_while_their_objective_rises(curves, layers):
    """On concrete; frequencies from the prior do not, so the comparison can fail."""

    def change(method, score):
        values = curves.loc[("concrete", method, layers, 100)].sort_values("step")[score].to_numpy()
        return values[-1] - values[len(values) // 2]

    assert change("RBF", "bound") > 0.1
    assert change("RBF", "heldout") < -0.1
    assert change("prior-fixed", "heldout") > -0.05
