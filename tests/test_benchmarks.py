"""What the benchmarks compare is the same thing: one function of theta, by this package and by others."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks import evidence, first_draw, gradient, iteration, orthants, threads
from benchmarks.problems import load
from pmgp.core.estimators import AnnealedImportanceSampling

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def values() -> dict[tuple[str, str, str], float]:
    """Log-evidence at n = 40, by package, link and method."""
    compared = evidence.methods(load("synthetic-40"))
    return {(one.package, one.link, one.name): one.evaluate() for one in compared}


def test_laplaces_evidence_is_that_of_scikit_learn(values):
    theirs = values["scikit-learn", "logit", "Laplace"]
    assert theirs == values["scikit-learn", "logit", "Laplace, gradient"]
    assert_allclose(values["pmgp", "logit", "Laplace"], theirs, atol=1e-5)
    assert_allclose(values["pmgp", "logit", "Laplace, gradient"], theirs, atol=1e-5)


@pytest.mark.parametrize("method", ["Laplace", "EP"])
def test_loose_fits_are_near_those_that_have_converged(values, method):
    names = {"Laplace": ["Laplace, loose"], "EP": ["EP, loose", "EP, loose, predicted start"]}[method]
    loose = [values["pmgp", "probit", name] for name in names]
    assert_allclose(loose, values["pmgp", "probit", method], atol=0.1)


def test_an_iteration_is_timed_and_its_operations_counted():
    row = iteration.measure(load("synthetic-30"), "ep", AnnealedImportanceSampling(draws=2), tune=60, draws=20)
    assert row["estimator"] == "AnnealedImportanceSampling"
    assert row["N_imp"] == 2
    assert 1.0 < row["C"] < 8.0
    assert_allclose(row["dpotrfs"], row["ms"] / row["dpotrf ms"])
    assert np.isfinite(row["ratio"])
    assert_allclose(row["ratio with PyMC"] / row["ratio"], 1.0 + row["PyMC ms"] / row["ms"])
    assert 0.0 < row["PyMC ms"] < row["ms"]


@pytest.mark.parametrize("start", gradient.STARTS)
def test_a_gradient_is_timed_with_the_fit_and_by_its_parts(start):
    row = gradient.measure(load("synthetic-60-d3-ard"), "ep", start)
    assert (row["n"], row["q"], row["start"]) == (60, "ep", start)
    assert_allclose(row["ratio"], row["with gradient ms"] / row["fit ms"])
    assert row["ratio"] > 1.0
    assert 0.0 < max(row["inverse ms"], row["pullback ms"]) < row["with gradient ms"]
    assert (row["sweeps"] < 3.0) == (start == "predicted")


def test_methods_for_orthants_estimate_the_same():
    rng = np.random.default_rng(1)
    given = orthants.Labels("", orthants._process(rng.normal(size=(20, 2)), 3.0, 1.0), rng.integers(0, 2, 20))
    found = list(orthants.measure(given, repeats=40))
    assert [row["method"] for row in found] == ["importance sampling", "orthant sampling", "ep", "tilted", "ghk"]
    assert max(row["rms error"] for row in found) < 0.3
    assert found[2]["sd"] < found[3]["sd"] < found[4]["sd"]


def test_the_ten_lines_of_the_readme_are_what_is_timed():
    code = threads.script()
    assert threads.CALL not in code
    assert "pm.sample(step=step, chains=4, cores=2" in code
    compile(code, "README.md", "exec")


def test_the_wait_for_the_first_draw_ends_with_it():
    elapsed, processor, own = first_draw.wait("BernoulliProbit")
    assert 0.0 < own < elapsed
    assert 0.0 < elapsed < 300.0
    assert processor > 0.0
