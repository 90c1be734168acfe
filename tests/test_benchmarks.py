"""What the benchmarks compare is the same thing: one function of theta, by this package and by others."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks import (
    accelerator,
    evidence,
    first_draw,
    gradient,
    iteration,
    maps,
    orthants,
    samplers,
    sparse,
    threads,
    time_series,
)
from benchmarks.problems import load
from benchmarks.samplers import OverTimeError
from pmgp.core.estimators import AnnealedImportanceSampling


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
    elapsed, processor, own = first_draw.wait(first_draw.model("BernoulliProbit"))
    assert 0.0 < own < elapsed
    assert 0.0 < elapsed < 300.0
    assert processor > 0.0


def few_counts():
    """A small problem on inducing inputs."""
    X = np.linspace(0.0, 5.0, 20)[:, None]
    counts = np.random.default_rng(1).poisson(np.exp(np.sin(X[:, 0])))
    return sparse.Problem(X, counts, X[::4], ((2.0, 1.0), (2.0, 1.0)), sparse._poisson(1.0), 5.0)


def test_samplers_on_inducing_inputs_are_counted_with_the_search_for_their_start():
    found = [sparse.measure("few", few_counts(), method, limit=1.0) for method in list(sparse.METHODS)[:3]]
    for row in found:
        assert row["tune"] + row["draws"] >= sparse.FEWEST
        assert 0.0 < row["ESS"] <= row["theta ESS"]
        assert_allclose(row["ESS/s"], row["ESS"] / row["seconds"])
    assert len({row["ESS"] for row in found}) == 3


def test_nuts_that_takes_too_long_has_a_row_without_figures(monkeypatch):
    def never(run, seed, most):
        assert (run.step, most) == (None, sparse.PATIENCE)
        assert len(run.initvals) == 4
        raise OverTimeError

    monkeypatch.setattr(sparse, "sample", never)
    row = sparse.measure("few", few_counts(), "NUTS")
    assert row["seconds"] > sparse.PATIENCE
    assert np.isnan([row["ESS"], row["R-hat"], row["ESS/s"]]).all()


def test_chains_are_given_up_when_they_take_longer_than_they_may(monkeypatch):
    times = iter([1.0, 3.0, 3.1])
    monkeypatch.setattr(samplers, "process_time", lambda: next(times))
    clock = samplers.Clock(most=2.0)
    for _ in range(2):
        clock(None, None)
    with pytest.raises(OverTimeError):
        clock(None, None)


def test_a_gradient_is_timed_beside_its_linear_algebra_and_needs_few_matrices():
    row = sparse.gradient(n=3000, d=3, m=40, repeats=2)
    assert_allclose(row["ratio"], row["ms"] / row["BLAS ms"])
    assert row["ratio"] > 0.5
    assert 1.0 < row["N x M matrices"] < 12.0


def test_what_is_known_is_not_measured_again(monkeypatch):
    monkeypatch.setattr(sparse, "PROBLEMS", {"few": few_counts, "absent": lambda: None})
    monkeypatch.setattr(sparse, "measure", lambda name, problem, method: {"data": name, "method": method})
    rows = list(sparse.rows({("few", "SparseHMC")}, ("SparseGibbs", "SparseHMC")))
    assert rows == [{"data": "few", "method": "SparseGibbs"}]


def test_maps_are_sampled_by_both_and_sweeps_are_timed():
    row = maps.measure(maps.cox(5), "pmgp", draws=60, tune=60)
    assert row["n"] == 25
    assert 0.0 < row["s per independent draw"] < np.inf
    assert maps.measure(maps.cox(4), "nuts", draws=20, tune=20)["method"] == "nuts"
    swept = maps.sweep(6)
    assert swept["sweep ms"] > 0.0
    assert swept["n"] == 36


def test_time_series_are_sampled_by_both():
    models = {
        "returns": time_series.returns(np.random.default_rng(1).normal(size=40)),
        "counts": time_series.counts(40),
    }
    for name, model in models.items():
        row = time_series.measure(name, model, "pmgp", draws=60, tune=60)
        assert row["n"] == 40
        assert 0.0 < row["ESS/s"] < np.inf
    assert time_series.measure("counts", models["counts"], "nuts", draws=20, tune=20)["method"] == "nuts"


def test_evidences_on_jax_s_device_are_timed_beside_numpy_s():
    rows = list(accelerator.evidence_rows(30, process_time))
    assert [row["what"] for row in rows] == ["evidence", "evidence and gradient"]
    for row in rows:
        assert row["n"] == 30
        assert_allclose(row["ratio"], row["seconds"] / row["its seconds"])


def test_a_sweep_on_jax_s_device_is_timed_beside_lapack_s():
    row = accelerator.sweep_row(30, process_time)
    assert row["what"] == "sweep"
    assert row["n"] == 30
    assert_allclose(row["ratio"], row["seconds"] / row["its seconds"])
