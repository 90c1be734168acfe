"""Tools beside each other: runs as long as the budget, and rows for those that give no figures."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from benchmarks import __main__ as command
from benchmarks import gpflow_process, peers, samplers
from benchmarks.problems import load, whitened
from pmgp.datasets import DatasetError
from pmgp.interface.graphs.compilation import INTERPRETED

TINY = "synthetic-20"


# Budgets


@pytest.mark.parametrize("seconds_each", [1e-6, 0.001, 0.01, 0.07, 0.4, 5.0])
def test_the_longest_run_takes_most_of_the_budget_and_not_more(seconds_each, monkeypatch):
    """The budget is 60 seconds. A first run that takes longer is the only one; no run has over MOST iterations."""
    lengths = []

    def sampler(tune, draws, seed):
        assert (tune, seed) == (draws, 3)
        lengths.append(draws)
        return seconds_each * draws, f"draws of {draws}"

    monkeypatch.setattr(peers, "convergence", lambda idata: (1.2, 1000.0))
    iterations, seconds, idata = peers.longest(sampler, 60.0, 3)
    assert idata == f"draws of {iterations}"
    assert lengths == sorted(lengths)
    if iterations < peers.MOST and len(lengths) > 1:
        assert 0.5 * 60.0 < seconds <= 60.0
    assert lengths[0] == peers.FIRST
    assert iterations == {1e-6: peers.MOST, 0.001: 48_000, 5.0: peers.FIRST}.get(seconds_each, iterations)


@pytest.mark.parametrize(("rhat", "ess", "longer"), [(1.001, 900.0, False), (1.02, 900.0, True), (1.001, 90.0, True)])
def test_a_run_of_enough_iterations_that_has_converged_is_the_last(rhat, ess, longer, monkeypatch):
    monkeypatch.setattr(peers, "convergence", lambda idata: (rhat, ess))
    iterations, _, _ = peers.longest(lambda tune, draws, seed: (1e-6 * draws, None), 60.0, 3)
    assert iterations == (peers.MOST if longer else peers.ENOUGH)


@pytest.mark.parametrize(
    ("log_weights", "worth"), [((0.0, 0.0), 1.0), ((-800.0, -np.inf), 0.5), ((0.0, np.log(3)), 0.8)]
)
def test_draws_with_weights_are_worth_fewer(log_weights, worth):
    """Two weights in turns, which the posterior does not know."""
    rng = np.random.default_rng(1)
    names = ("lengthscale", "variance")
    posterior = xr.Dataset({name: (("chain", "draw"), rng.normal(size=(4, 100))) for name in names})
    plain = xr.DataTree.from_dict({"posterior": posterior})
    weights = xr.Dataset({"log_weight": (("chain", "draw"), np.tile(log_weights, (4, 50)))})
    weighted = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": weights})
    rhat, ess = peers.convergence(plain)
    assert peers.convergence(weighted) == pytest.approx((rhat, worth * ess))


# Rows without figures


@pytest.fixture
def problem():
    return load(TINY)


def test_a_tool_that_is_not_installed_has_a_row(problem, monkeypatch):
    monkeypatch.setitem(peers.TOOLS, "other", peers.Tool("no-such-package", None))
    row = peers.measure(problem, TINY, "other", 1.0)
    assert (row["status"], row["tool"], row["data"], row["n"]) == ("not installed", "other", "synthetic n=20 d=2", 20)
    assert np.isnan(row["ESS/s"])
    assert row["budget"] == 1.0


@pytest.mark.parametrize("waiting", [1.0, 10000.0])
def test_a_run_without_end_is_given_up(problem, monkeypatch, waiting):
    """By the clock, or where that has long to go by the processor's time."""
    monkeypatch.setattr(peers, "COMPILATION", 0.1)
    monkeypatch.setattr(peers, "WAITING", waiting)
    assert peers.measure(problem, TINY, "pmgp", 0.0)["status"] == "over budget"


def test_a_tool_that_fails_has_a_row(problem, monkeypatch):
    monkeypatch.setattr(sys, "executable", "false")
    assert peers.measure(problem, TINY, "pmgp", 1.0)["status"] == "failed"


@pytest.mark.parametrize(("status", "ends"), [(128 + signal.SIGXCPU, True), (-signal.SIGXCPU, True), (1, False)])
def test_gpflow_over_its_limit_is_not_taken_for_a_failure(status, ends, monkeypatch):
    """What ends its process ends the one that started it, too."""
    raised = []
    monkeypatch.setattr(signal, "raise_signal", raised.append)
    with pytest.raises(subprocess.CalledProcessError):
        gpflow_process._end_as(subprocess.CompletedProcess([], status))
    assert raised == [signal.SIGXCPU] * ends


def test_data_that_cannot_be_had_have_rows(monkeypatch):
    def offline(name):
        raise DatasetError(name)

    monkeypatch.setattr(peers, "load", offline)
    rows = list(peers.rows(["pima"], ["pmgp", "AA"], 1.0))
    assert [(row["data"], row["tool"], row["status"]) for row in rows] == [
        ("pima", "pmgp", "no data"),
        ("pima", "AA", "no data"),
    ]


def test_rows_that_are_there_are_kept_and_missing_tools_tried_again(tmp_path, monkeypatch):
    def measured(status):
        def measure(problem, name, tool, budget):
            row = peers._row(problem, tool, "1.0", "not installed" if tool == "nutpie" else status)
            return row | {"budget": budget}

        return measure

    arguments = ["--only", "peers", "--data", "synthetic-100", "--out", str(tmp_path), "--resume"]
    for status in ("converged", "over budget"):
        monkeypatch.setattr(peers, "measure", measured(status))
        command.main(arguments)
        table = pd.read_csv(tmp_path / "peers.csv")
        assert sorted(table["tool"]) == sorted(peers.TOOLS)
        assert set(table["status"]) == {"converged", "not installed"}
    command.main([*arguments, "--budget", "1000"])
    assert set(pd.read_csv(tmp_path / "peers.csv")["status"]) == {"over budget", "not installed"}


# Figures


@pytest.mark.parametrize("tool", ["pmgp", "plain pseudo-marginal", "AA"])
def test_schemes_of_this_package_sample_as_they_are(problem, tool):
    seconds, idata = peers.TOOLS[tool].prepare(problem)(peers.FIRST, peers.FIRST, 1)
    assert seconds > 0.0
    assert dict(idata["posterior"]["lengthscale"].sizes) == {"chain": 4, "draw": peers.FIRST}
    screened = idata["sample_stats"].to_dataset().get("screen_acceptance_rate")
    assert (screened is not None and bool(np.isfinite(screened).all())) == (tool == "pmgp")


def test_corrected_draws_take_the_time_of_both_parts_and_have_their_weights(problem, monkeypatch):
    sampler = peers.TOOLS["marginalize and correct"].prepare(problem)
    first, weighted = sampler(peers.FIRST, peers.FIRST, 1)
    draws = weighted["posterior"]["lengthscale"].to_numpy()
    assert draws.shape == weighted["sample_stats"]["log_weight"].shape == (4, peers.FIRST)
    assert len(np.unique(draws)) > 2 * peers.FIRST
    assert 0.0 < weighted["sample_stats"]["log_weight"].std() < 1.0
    monkeypatch.setattr(samplers, "sample", lambda run, seed: (1000.0, weighted_by_nuts(weighted)))
    again, _ = sampler(peers.FIRST, peers.FIRST, 1)
    assert 1000.0 < again < 1000.0 + max(10.0, 10.0 * first)


def weighted_by_nuts(weighted):
    """What the correction was given, as far as it looks at it."""
    evidence = weighted["sample_stats"]["log_marginal_likelihood"] - weighted["sample_stats"]["log_weight"]
    draws = weighted["posterior"].to_dataset().drop_vars("f")
    return xr.DataTree.from_dict({"posterior": draws.assign(log_marginal_likelihood=evidence)})


@pytest.mark.parametrize("name", ["synthetic-20", "synthetic-20-d3-ard", "synthetic-20-poisson"])
def test_blackjax_has_the_same_target(name):
    """PyMC's density of the whitened model, at a point that is nowhere special."""
    theirs = pytest.importorskip("benchmarks.blackjax_theta", reason="BlackJAX is not installed")
    rng, given = np.random.default_rng(2), load(name)
    theta = rng.normal(size=len(theirs.Target(given).start))
    point = {"lengthscale_log__": theta[:-1] if "ard" in name else theta[0], "variance_log__": theta[-1]}
    point["f_rotated_"] = rng.normal(size=20)
    expected = whitened(given).compile_logp(mode=INTERPRETED)(point)
    assert float(theirs.Target(given).joint(point["f_rotated_"], theta)) == pytest.approx(float(expected), rel=1e-10)


def test_blackjax_samples(problem):
    """One of its samplers; that of Laplace's method takes eight seconds to compile."""
    pytest.importorskip("blackjax")
    seconds, idata = peers.TOOLS["BlackJAX latent Gaussian"].prepare(problem)(peers.FIRST, 2 * peers.FIRST, 1)
    assert seconds > 0.0
    assert dict(idata["posterior"]["lengthscale"].sizes) == {"chain": 4, "draw": 2 * peers.FIRST}
    assert all(np.isfinite(values).all() for values in idata["posterior"].to_dataset().values())


def test_a_tool_samples_in_a_process_of_its_own(problem):
    row = peers.measure(problem, TINY, "pmgp", 1.0)
    assert row["status"] in ("converged", "not converged")
    assert peers.FIRST < row["tune"] == row["draws"] <= peers.MOST
    assert row["ESS/s"] == pytest.approx(row["ESS"] / row["seconds"])
    assert 50.0 < row["MB"] < 5000.0
