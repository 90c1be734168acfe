"""Where chains start if nobody says so: draws of the Gaussian that is fitted on the bound."""

from __future__ import annotations

from unittest.mock import Mock

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.interface.sampling import inducing_starts
from pmgp.interface.sampling.stored_run import Seed, StoredRun
from tests.sparse.problems import X, sparse
from tests.sparse.test_sites import classes


def short_run(model, **options):
    settings = {"draws": 4, "tune": 4, "chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}
    return pmgp.sample(model, compute_convergence_checks=False, **settings | options)["posterior"]


def test_chains_start_near_the_posterior_and_not_at_the_center_of_the_prior(monkeypatch):
    model, process = sparse(X[::3])
    found = pmgp.gp.optimize_inducing(process, model=model, inducing=False, max_iterations=100, progressbar=False)
    given = []
    drawn_from = pm.sample
    monkeypatch.setattr(pm, "sample", lambda **settings: given.append(settings["initvals"]) or drawn_from(**settings))
    one, other, again = (short_run(model, random_seed=seed) for seed in (1, 2, 1))
    own = short_run(model, initvals={})
    first, second = given[0]
    for start in given[0]:
        for name, value in found.point.items():
            np.testing.assert_array_equal(start[name], value)
        # Four normals, squared: above 25 once in 20,000.
        deviation = np.linalg.solve(found.factor[0], start["f_rotated_"] - found.mean[0])
        assert 0.0 < deviation @ deviation < 25.0
    assert (first["f_rotated_"] != second["f_rotated_"]).all()
    assert (given[1][0]["f_rotated_"] != first["f_rotated_"]).all()
    assert given[3] == {}
    np.testing.assert_array_equal(one["lengthscale"], again["lengthscale"])
    assert (one["lengthscale"] != other["lengthscale"]).any()
    assert (one["lengthscale"] != own["lengthscale"]).any()


def test_the_start_of_an_interrupted_run_is_stored_with_it(tmp_path):
    model, _ = sparse(X[::3])
    short_run(model, out=tmp_path / "run")
    whole = short_run(model, draws=9)
    longer = pmgp.resume(
        tmp_path / "run", model, draws=9, progressbar=False, quiet=True, compute_convergence_checks=False
    )["posterior"]
    _, initvals = StoredRun.load(tmp_path / "run").start()
    assert len(initvals) == 2
    for name in ("lengthscale", "variance", "f_rotated_"):
        np.testing.assert_array_equal(longer[name], whole[name])
        assert name in initvals[0]


def test_a_run_that_is_interrupted_before_its_start_is_known_goes_on(tmp_path, monkeypatch):
    model, _ = sparse(X[::3])
    whole = short_run(model)
    with monkeypatch.context() as patched:
        patched.setattr(inducing_starts, "optimize_inducing", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            short_run(model, out=tmp_path / "run")
    settings = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    found = pmgp.resume(tmp_path / "run", model, **settings)["posterior"]
    np.testing.assert_array_equal(found["f_rotated_"], whole["f_rotated_"])
    assert StoredRun.load(tmp_path / "run").start()[1] is not None


def test_a_run_of_classes_follows_the_gaussian_and_goes_on_with_it(tmp_path, monkeypatch):
    """Without it, its iterations are others."""
    monkeypatch.setattr("pmgp.interface.sampling.inducing_starts.ITERATIONS", 10)
    model, process = classes()
    short_run(model, out=tmp_path / "run")
    whole = short_run(model, draws=9)
    longer = pmgp.resume(
        tmp_path / "run", model, draws=9, progressbar=False, quiet=True, compute_convergence_checks=False
    )["posterior"]
    found = pmgp.gp.optimize_inducing(process, model=model, inducing=False, max_iterations=10, progressbar=False)
    with_it, without = (
        short_run(model, draws=9, step=pmgp.steps.SparseGibbs(model=model, **given))
        for given in ({"approximation": found}, {})
    )
    for name in ("lengthscale", "variance", "f_rotated_"):
        np.testing.assert_array_equal(longer[name], whole[name])
        np.testing.assert_array_equal(with_it[name], whole[name])
    assert (without["f_rotated_"] != whole["f_rotated_"]).any()


def test_the_start_takes_no_random_number_from_the_chains():
    seed = Seed.from_random_seed(5)
    before = seed.generator().bit_generator.state
    start = seed.separate_generator().standard_normal(5)
    np.testing.assert_array_equal(seed.separate_generator().standard_normal(5), start)
    assert seed.generator().bit_generator.state == before
    chains = [generator.standard_normal(5) for generator in seed.generator().spawn(3)]
    assert all((start != chain).all() for chain in chains)


def test_where_the_bound_cannot_be_optimized_the_start_is_the_model_s_own_and_that_is_said(monkeypatch, caplog):
    def refuse(*arguments, **options):
        raise pmgp.ModelError("no bound")

    monkeypatch.setattr("pmgp.interface.sampling.inducing_starts.optimize_inducing", refuse)
    model, _ = sparse(X[::3])
    with caplog.at_level("WARNING", logger="pymc.pmgp"):
        chain = short_run(model, quiet=False)
    assert "Chains start from the model's own initial point, not near the posterior: no bound" in caplog.text
    np.testing.assert_array_equal(chain["lengthscale"], short_run(model, initvals={})["lengthscale"])
