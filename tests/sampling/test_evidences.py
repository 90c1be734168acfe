"""Evidences of several models: those of `evidence`, the same on any executor, and stored ones are not made again."""

from __future__ import annotations

import threading
from functools import partial

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.stored_cells import StoredCells
from tests.sampling.test_executors import Here
from tests.truths import ScaledLowRank

QUICK = {"draws": 60, "tune": 60, "chains": 1, "theta_draws": 100, "random_seed": 2, "progressbar": False}


def model(prior_scale: float) -> pm.Model:
    problem = ScaledLowRank(12, 0.3)
    with pm.Model() as made:
        scale = pm.LogNormal("scale", 0.0, prior_scale)
        f = pm.MvNormal("f", np.zeros(12), cov=scale * problem.covariance)
        pmgp.BernoulliProbit("y", f, observed=problem.y)
    return made


@pytest.fixture(scope="module")
def models():
    return {"narrow": model(0.5), "wide / flat": model(2.0)}


@pytest.fixture(scope="module")
def serial(models):
    return pmgp.evidences(models, **QUICK)


def test_they_are_those_of_each_model(models, serial):
    """Seeds differ from one model to the next, so a result in the wrong place would differ."""
    seeds = np.random.SeedSequence(QUICK["random_seed"]).spawn(2)
    for seed, (name, made) in zip(seeds, models.items(), strict=True):
        drawing, weighing = map(np.random.default_rng, seed.spawn(2))
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
        idata = pmgp.sample(made, draws=60, tune=60, chains=1, cores=1, random_seed=drawing, **quiet)
        found = pmgp.evidence(idata, model=made, draws=100, random_seed=weighing, progressbar=False)
        own = serial.sel(model=name)
        assert (float(own.log_evidence), float(own.standard_error)) == (found.log_evidence, found.standard_error)
        assert bool(own.trusted) == found.trust.reliable


def test_stored_ones_are_not_made_again_and_executors_change_nothing(models, serial, tmp_path):
    def breaks(number):
        if number == 1:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        pmgp.evidences(models, executor=Here(breaks), out=tmp_path, **QUICK)
    rest = Here()
    found = pmgp.evidences(models, executor=rest, out=tmp_path, **QUICK)
    assert rest.submitted == 1
    assert_array_equal(found.log_evidence, serial.log_evidence)
    assert found.attrs["workers"].startswith("wide / flat")
    with pytest.raises(pmgp.StoreError, match="other settings"):
        pmgp.evidences(models, out=tmp_path, **QUICK | {"draws": 61})
    (tmp_path / "narrow.json").write_text('{"settings": ')
    with pytest.raises(
        pmgp.StoreError, match=r"narrow\.json is damaged .*: delete it, and the same call makes it again"
    ):
        pmgp.evidences(models, out=tmp_path, **QUICK)


def test_a_model_that_cannot_be_pickled_is_named(models):
    locked = model(1.0)
    locked.lock = threading.Lock()
    with pytest.raises(pmgp.WorkerError, match=r"task 0 cannot be sent to workers, because it cannot be pickled"):
        pmgp.evidences({"locked": locked}, executor=Here(), **QUICK)


def test_a_full_disk_is_named_and_keeps_what_was_there(tmp_path, monkeypatch):
    def full(path, text):
        raise OSError(28, "No space left on device")

    cells = StoredCells({"seed": 1}, tmp_path)
    cells.complete({"one": partial(pow, 2, 3)}, None, 60.0, None)
    with monkeypatch.context() as patched:
        patched.setattr(blocks, "replace_text", full)
        with pytest.raises(pmgp.StoreError, match=r"result of two could not be stored .* No space left on device"):
            cells.complete({"two": partial(pow, 2, 4)}, Here(), 60.0, None)
    again = StoredCells({"seed": 1}, tmp_path)
    again.complete({"one": partial(pow, 0, 0), "two": partial(pow, 2, 4)}, None, 60.0, None)
    assert again.results == {"one": 8, "two": 16}


def test_a_store_needs_a_seed(models):
    with pytest.raises(ValueError, match="needs a random_seed"):
        pmgp.evidences(models, out="somewhere", **QUICK | {"random_seed": None})


def test_what_changes_the_constant_of_a_prior_is_said_of_the_model_by_name(tmp_path):
    """Also of models whose result is stored."""
    made = model(0.5)
    with made:
        pm.Potential("extra", 5.0 + 0.0 * made["scale"])
    for _ in range(2):
        with pytest.warns(UserWarning, match="model 'with a potential': the potential extra changes the prior"):
            pmgp.evidences({"with a potential": made}, out=tmp_path, **QUICK)
    with pytest.warns(UserWarning, match="the potential extra changes the prior"):
        pmgp.importance(made, draws=100, climbs=0, random_seed=1, progressbar=False)
