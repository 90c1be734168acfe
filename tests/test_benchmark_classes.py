"""Several classes beside NUTS: one model in both forms, and a row for every problem and tool."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from benchmarks import __main__ as command
from benchmarks import classes, peers
from benchmarks.problems import CLASSES, Problem, load, whitened

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


def test_every_problem_has_a_row_of_every_tool(tmp_path, monkeypatch):
    def measure(problem, name, tool, budget):
        return peers._row(problem, tool, "1.0", "converged") | {"budget": budget}

    monkeypatch.setattr(peers, "measure", measure)
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
