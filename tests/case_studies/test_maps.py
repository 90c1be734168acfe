"""The study of pine saplings: its models, its chains, and what is stored of them."""

from __future__ import annotations

import dataclasses

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
from pytensor.compile.mode import Mode
from scipy.special import kv

import pmgp
from case_studies.maps import pines, results, study
from case_studies.maps.__main__ import main
from case_studies.maps.study import METHODS, SCALES, Cell, cells
from case_studies.tools import saplings

TINY = dataclasses.replace(
    SCALES["quick"], name="tiny", lengths={"SPDE": (8, 8)}, sparse=dict.fromkeys(METHODS, (4,)), dense=()
)


@pytest.fixture
def places(monkeypatch, tmp_path):
    """Forty points in place of the saplings."""
    points = np.random.default_rng(1).uniform(0.0, 1.0, (40, 2))
    np.savetxt(tmp_path / saplings.FILE, points, delimiter=",", header="x,y")
    monkeypatch.setenv("PMGP_DATA", str(tmp_path))
    return saplings.SIDE * points


def test_saplings_are_counted_in_the_square_that_they_stand_in(places):
    counts, middles = saplings.counts(5), saplings.middles(5)
    nearest = np.abs(places[:, None, :] - middles).max(axis=2).argmin(axis=1)
    np.testing.assert_array_equal(counts, np.bincount(nearest, minlength=25))


def test_the_kernel_is_that_of_the_field():
    X = np.random.default_rng(2).uniform(0.0, 3.0, (6, 2))
    found = pines.Matern1(2, ls=0.7)(X).eval(mode=Mode(linker="py", optimizer=None))
    distance = np.sqrt(np.square(X[:, None] - X).sum(axis=2)) + np.eye(6)

    def expected(lengthscale):
        scaled = np.sqrt(2.0) * distance / lengthscale
        return np.where(np.eye(6), 1.0, scaled * kv(1, scaled))

    np.testing.assert_allclose(found, expected(0.7), atol=1e-6)
    # A twin that takes the range for the length-scale.
    assert np.abs(found - expected(1.4)).max() > 0.05


def test_squares_without_their_border_are_observed(places):
    given = pines.model("SPDE", 8)
    assert (len(given.seen), given.seen.sum()) == (10**2, 8**2)
    assert given.model["y"].owner.inputs[-1].type.shape == (64,)
    np.testing.assert_array_equal(given.model.rvs_to_values[given.model["y"]].data, saplings.counts(8))


@pytest.fixture
def sampled(monkeypatch):
    """Normal draws of 20 nodes in place of those of a chain; the arguments that it was sampled with."""
    calls = []

    def sample(draws, step, **settings):
        calls.append(settings | {"draws": draws, "step": step})
        rng = np.random.default_rng(settings["random_seed"])
        shapes = {"lengthscale": (), "variance": (), "f": (20,)}
        posterior = {name: rng.normal(size=(1, draws, *shape)) for name, shape in shapes.items()}
        return az.from_dict({"posterior": posterior})

    monkeypatch.setattr(pm, "sample", sample)
    monkeypatch.setattr(pmgp, "PseudoMarginal", lambda **settings: settings)
    monkeypatch.setattr(study, "model", lambda *cell: pines.Model(pm.Model(), np.arange(20) < 16))
    return calls


def test_the_study_is_run_once_and_adds_to_its_table(places, sampled, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(SCALES, "quick", TINY)
    words = ["--runs", str(tmp_path / "runs"), "--out", str(tmp_path), "--method", "Laplace alone"]
    main(words)
    assert [call["step"] for call in sampled] == [{"approximation": "laplace", "estimator": "none"}] * 2
    assert len({call["random_seed"] for call in sampled}) == len({str(call["initvals"]) for call in sampled}) == 2
    # Normal draws.
    assert pd.read_csv(tmp_path / "tiny.csv")["log_deviation"].to_numpy() == pytest.approx([1.0], abs=0.2)
    main(words)
    assert len(sampled) == 2
    assert "0 units to run" in capsys.readouterr().out
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    found = results.draws("tiny", Cell("SPDE", 4, "Laplace alone"))
    assert found["lengthscale"].shape == (2 * 8,)
    assert found["intensity"].shape == (16,)


# ---- what is stored


@pytest.fixture(scope="module")
def stored():
    return results.table(results.FOLDER, "quick").read().set_index(list(Cell._fields))


def test_stored_lines_are_of_the_study(stored):
    scale = SCALES["quick"]
    assert results.missing(results.FOLDER, scale, cells(scale)) == []
    assert len(stored) == len(cells(scale))


def test_stored_chains_agree(stored):
    assert (stored["rhat"] < 1.025).all()
    assert (stored["ess"] > 100.0).all()


def test_stored_draws_are_those_of_the_table(stored):
    for cell, row in stored.iterrows():
        found = results.draws("quick", Cell(*cell))
        for name in study.THETA:
            assert found[name].mean() == pytest.approx(row[f"{name}_mean"], rel=1e-3)
        # The trees of the square, expected by the model.
        assert found["intensity"].mean() * saplings.SIDE**2 == pytest.approx(127, rel=0.5)


def standard_errors(one: pd.Series, other: pd.Series) -> float:
    """How many Monte Carlo errors lie between the means of the length-scale."""
    errors = [row["lengthscale_sd"] / np.sqrt(row["ess"]) for row in (one, other)]
    return abs(one["lengthscale_mean"] - other["lengthscale_mean"]) / np.hypot(*errors)


def test_the_field_has_the_posterior_of_the_dense_process_with_its_kernel(stored):
    """The border and the lattice make a difference below a quarter of a standard deviation."""
    sparse, dense = (stored.loc[(prior, 16, "exact")] for prior in ("SPDE", "dense Matern 1"))
    assert standard_errors(sparse, dense) < 3.0
    assert abs(sparse["lengthscale_mean"] - dense["lengthscale_mean"]) < 0.25 * dense["lengthscale_sd"]
    # Another kernel has another posterior.
    assert standard_errors(dense, stored.loc[("dense squared exponential", 16, "exact")]) > 6.0


def test_the_posterior_settles_on_the_finest_grids(stored):
    finest, finer = (stored.loc[("SPDE", side, "exact")] for side in (128, 64))
    assert standard_errors(finest, finer) < 3.0
    # A twin without the correction.
    assert standard_errors(finest, stored.loc[("SPDE", 64, "Laplace alone")]) > 12.0


def test_laplaces_approximation_alone_goes_to_shorter_lengthscales_on_finer_grids(stored):
    far = [
        standard_errors(stored.loc[("SPDE", side, "exact")], stored.loc[("SPDE", side, "Laplace alone")])
        for side in reversed(SCALES["quick"].sparse["Laplace alone"])
    ]
    assert far[0] > 4.0
    assert far == sorted(far)
    assert far[-1] > 25.0
