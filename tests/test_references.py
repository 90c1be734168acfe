"""References are good enough to compare with, belong to the models of the tests, and are replaced one at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

from tests.references import MOMENTS, RUNS, Reference, apart, references, store


def build(scale: float = 1.0) -> pm.Model:
    with pm.Model() as model:
        pm.Normal("x", 0.5, scale, shape=2)
        pm.LogNormal("s", -1.0, 0.5)
    return model


SMALL = Reference("small", build, ("x", "s"), tune=300, draws=300)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Two runs of a small model, the second under another name; then the first again."""
    folder = tmp_path_factory.mktemp("references")
    paths = {"moments": folder / "moments.csv", "runs": folder / "runs.csv"}
    moments, run = SMALL.sampled()
    for name in ("small", "other", "small"):
        store(name, moments, run, **paths)
    return moments, paths


def test_all_references_are_stored_from_chains_that_have_converged():
    table, runs = pd.read_csv(MOMENTS), pd.read_csv(RUNS)
    assert set(table["reference"]) == set(runs["reference"]) == set(references())
    assert table["r_hat"].max() < 1.01
    assert table["ess_bulk"].min() > 3000.0
    assert (runs["divergences"] < 1e-3 * runs["chains"] * runs["draws"]).all()


def test_a_stored_run_comes_back_and_has_the_moments_of_the_model(stored):
    moments, paths = stored
    found = SMALL.summary(**paths)
    pd.testing.assert_frame_equal(found, moments, rtol=1e-5)
    assert len(pd.read_csv(paths["runs"])) == 2
    exact = moments.assign(mcse_mean=0.0, mcse_sd=0.0)
    exact[["mean", "sd"]] = [[0.5, 1.0], [0.5, 1.0], [np.exp(-0.875), np.exp(-0.875) * np.sqrt(np.expm1(0.25))]]
    assert apart(found, exact).to_numpy().max() < 4.0
    twin = exact.assign(mean=exact["mean"] + 0.5)
    assert apart(found, twin)["mean"].min() > 8.0


def test_a_model_that_was_changed_has_no_reference(stored):
    _, paths = stored
    with pytest.raises(AssertionError, match=r"not the one that was sampled: run python -m tests\.references 'small'"):
        replace(SMALL, build=lambda: build(1.1)).summary(**paths)


def test_logarithms_are_summarized_where_that_is_asked():
    moments, _ = replace(SMALL, variables=("s",), logs=True).sampled()
    exact = moments.assign(mean=-1.0, sd=0.5, mcse_mean=0.0, mcse_sd=0.0)
    assert apart(moments, exact).to_numpy().max() < 4.0
