"""Several classes beside NUTS: one model in both forms, and a row for every problem and tool."""

from __future__ import annotations

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

from benchmarks import __main__ as command
from benchmarks import classes, peers
from benchmarks.problems import CLASSES, SEVERAL_SOURCES, Problem, load, whitened
from case_studies.multiple_sources import data, wheel
from pmgp.datasets import DatasetError

FAST = {"mode": "FAST_COMPILE"}


@pytest.mark.parametrize(
    ("name", "shape", "number"), [("iris", (150, 4), 3), ("wine", (178, 13), 3), ("fgl", (214, 9), 6)]
)
def test_problems_have_their_classes(name, shape, number):
    problem = load(name)
    assert (problem.X.shape, problem.likelihood) == (shape, "softmax")
    assert sorted(set(problem.y)) == list(range(number))
    np.testing.assert_allclose(problem.X.std(axis=0), 1.0, rtol=0.01)


def test_both_forms_of_the_model_have_one_likelihood():
    """At the same latent values, a row for each class, which the whitened form makes of normals."""
    rng = np.random.default_rng(1)
    problem = Problem("few", rng.normal(size=(5, 2)), np.array([0, 2, 1, 2, 0]), "rbf", "softmax")
    plain, white = problem.model(), whitened(problem)
    theta = {"lengthscale_log__": np.array(0.3), "variance_log__": np.array(0.5)}
    normals = rng.normal(size=(3, 5))
    squares = np.square(problem.X[:, None] - problem.X).sum(axis=-1)
    root = np.linalg.cholesky(np.exp(0.5 - 0.5 * squares / np.exp(0.6)) + 1e-6 * np.eye(5))
    of_plain = plain.compile_logp(vars=[plain["y"]], **FAST)(theta | {"f": normals @ root.T})
    of_white = white.compile_logp(vars=[white["y"]], **FAST)(theta | {"f_rotated_": normals})
    assert float(of_white) == pytest.approx(float(of_plain), abs=1e-4)
    assert abs(float(of_plain) - float(plain.compile_logp(vars=[plain["y"]], **FAST)(theta | {"f": normals}))) > 0.01


def sourced() -> Problem:
    """Three classes and two sources, of which one tells them."""
    rng = np.random.default_rng(3)
    y = np.arange(12) % 3
    sources = {"telling": np.eye(3)[y] - 1 / 3, "silent": rng.normal(size=(12, 1))}
    return Problem("sourced", np.hstack(list(sources.values())), y, "weighted", "softmax", sources)


def test_several_sources_have_weights_and_are_whitened_without_a_factorization():
    problem = sourced()
    assert {v.name for v in problem.model().free_RVs} == {"weights", "f0", "f1", "f2"}
    assert {v.name for v in whitened(problem).free_RVs} == {"weights", "nu", "b"}


@pytest.mark.skipif(not wheel.available(), reason="the files of the wheel are not there")
@pytest.mark.parametrize(("name", "shape", "number"), [("mfeat-4-60", (60, 649), 4), ("mfeat-10-200", (200, 649), 10)])
def test_digits_have_their_views(name, shape, number):
    problem = load(name)
    assert (problem.X.shape, problem.classes, len(problem.sources)) == (shape, number, 6)
    for X in problem.sources.values():
        assert np.trace(X @ X.T) == pytest.approx(shape[0])


def test_convergence_is_that_of_the_hyper_parameters_alone():
    """Convergence is judged by the weights if they are the only hyper-parameters, not by the latent values."""
    rng = np.random.default_rng(4)
    weights, stuck = rng.normal(size=(4, 200, 3, 2)), np.arange(4.0)[:, None] + 0.1 * rng.normal(size=(4, 200))
    posterior = az.convert_to_dataset({"weights": weights, "f": stuck})
    rhat, smallest = peers.convergence(xr.DataTree.from_dict({"posterior": posterior}))
    assert rhat < 1.05
    assert smallest > 400.0


def test_estimates_spread_less_with_more_draws(monkeypatch):
    found = {}
    for draws in (2, 128):
        monkeypatch.setattr(classes, "DRAWS", draws)
        row = classes.spread(sourced(), tune=10, points=2, repeats=40)
        assert row["smallest"] <= row["spread"] <= row["largest"]
        found[draws] = row["spread"]
    # By a factor of eight, but for what pairs of mirror images have in common, and the error of 40 estimates.
    assert found[128] < 0.3 * found[2]


def test_every_problem_has_a_row_of_every_tool(tmp_path, monkeypatch):
    def missing():
        raise DatasetError("not there")

    def measure(problem, name, tool, budget):
        return peers._row(problem, tool, "1.0", "converged") | {"budget": budget}

    monkeypatch.setattr(peers, "measure", measure)
    monkeypatch.setattr(classes, "spread", lambda problem: classes._spread_row(problem, [0.5, 0.25]))
    monkeypatch.setattr(wheel, "folder", missing)
    data.load.cache_clear()
    words = ["--only", "classes", "--budget", "7", "--out", str(tmp_path), "--resume"]
    command.main([*words, "--data", "iris", "--without-nuts"])
    first = pd.read_csv(tmp_path / "classes.csv")
    assert list(zip(first["data"], first["tool"], strict=True)) == [("iris", "pmgp")]
    command.main(words)
    table = pd.read_csv(tmp_path / "classes.csv")
    expected = {(name, tool) for name in CLASSES for tool in classes.TOOLS}
    assert set(zip(table["data"], table["tool"], strict=True)) == expected
    assert len(table) == len(expected)
    assert set(table["budget"]) == {7.0}
    spread = pd.read_csv(tmp_path / "classes_spread.csv").set_index("data")["spread"]
    assert set(spread.index) == set(CLASSES)
    assert spread[list(SEVERAL_SOURCES)].isna().all()
    assert (spread.drop(list(SEVERAL_SOURCES)) == 0.375).all()
