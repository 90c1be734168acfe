"""Cross-validation: against sums over a grid, the same on any executor, and finished chains skipped."""

from __future__ import annotations

from functools import cache, partial

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal
from scipy.special import log_ndtr, logsumexp

import pmgp
from pmgp.interface.sampling import cross_validation
from tests.confirmation import confirmed
from tests.sampling.test_executors import Here
from tests.truths import ScaledLowRank

N, NOISE = 24, 0.3
PROBLEM = ScaledLowRank(N, NOISE)
LARGEST = 4.0
"""The bound on the squared distances over their sum as the errors of two chains predict it."""
FOLD = np.arange(N) % 2
QUICK = {"folds": FOLD, "draws": 20, "tune": 30, "chains": 1, "random_seed": 2, "progressbar": False}


def make(y):
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        f = pm.MvNormal("f", np.zeros(N), cov=scale * PROBLEM.covariance)
        pmgp.BernoulliProbit("y", f, observed=y)
    return model


def log_evidence(rows):
    """Log-density of some of the labels, the scale and the latent values integrated out by sums over a grid."""
    x = np.random.default_rng(0).normal(size=N)
    u = np.linspace(-10.0, 10.0, 1001)
    scales = np.exp(PROBLEM.grid)[:, None]
    slopes = np.sqrt(scales / (1.0 + scales * NOISE)) * ((2 * PROBLEM.y - 1) * x)[rows]
    terms = log_ndtr(u[:, None] * slopes[:, None, :]).sum(axis=2) - 0.5 * u**2 - 0.5 * PROBLEM.grid[:, None] ** 2
    return logsumexp(terms)


def truth():
    return np.array(
        [log_evidence((FOLD[i] != FOLD) | (np.arange(N) == i)) - log_evidence(FOLD[i] != FOLD) for i in range(N)]
    )


def distance(found):
    """Sum over the observations of the squared distance from the truth."""
    return float(np.square(found.log_density - truth()).sum())


def test_densities_are_those_of_sums_over_a_grid(monkeypatch):
    """The squared distances are as large as the errors say; those of a model that has seen the labels are not."""
    settings = {"folds": FOLD, "draws": 200, "tune": 100, "progressbar": False}

    @cache
    def validated(seed):
        return pmgp.cross_validate(make, PROBLEM.y, chains=2, random_seed=seed, **settings)

    def expected(seed):
        return float(np.square(validated(seed).standard_error).sum())

    assert confirmed(lambda seed: distance(validated(seed)) / expected(seed), LARGEST) < LARGEST
    monkeypatch.setattr(np.ma, "masked_array", lambda y, mask: y)
    monkeypatch.setattr(cross_validation, "_check", lambda *args: None)
    seen = pmgp.cross_validate(make, PROBLEM.y, chains=1, random_seed=1, **settings)
    assert distance(seen) > 2.0 * LARGEST * expected(1)


def test_errors_are_those_within_chains_or_between_them():
    """Two chains that agree are not exact."""
    fold, errors = np.array([0, 1, 0]), {"standard_error": [0.1, 0.2]}
    results = {
        "fold 0, chain 0": {"log_density": [-1.0, -2.0]} | errors,
        "fold 0, chain 1": {"log_density": [-1.0, -4.0]} | errors,
        "fold 1, chain 0": {"log_density": [-0.5], "standard_error": [0.1]},
        "fold 1, chain 1": {"log_density": [-0.5], "standard_error": [0.0]},
    }
    found = cross_validation._found(fold, 2, results)
    densities = np.exp([-2.0, -4.0])
    expected = [0.1 / np.sqrt(2.0), 0.05, np.std(densities, ddof=1) / np.sqrt(2.0) / densities.mean()]
    np.testing.assert_allclose(found.standard_error, expected)
    np.testing.assert_allclose(found.log_density, [-1.0, -0.5, np.log(densities.mean())])
    too_few = {name: one | {"standard_error": [np.nan] * len(one["log_density"])} for name, one in results.items()}
    assert np.isnan(cross_validation._found(fold, 1, too_few).standard_error).all()
    np.testing.assert_allclose(cross_validation._found(fold, 2, too_few).standard_error[2], expected[2])


@pytest.fixture(scope="module")
def serial():
    return pmgp.cross_validate(make, PROBLEM.y, **QUICK)


def test_results_do_not_depend_on_the_executor(serial):
    executor = Here()
    found = pmgp.cross_validate(make, PROBLEM.y, executor=executor, **QUICK)
    assert executor.submitted == 2
    assert_array_equal(found.chain_log_density, serial.chain_log_density)
    assert len(found.attrs["workers"].splitlines()) == 2


def test_finished_chains_are_skipped(serial, tmp_path):
    def breaks(number):
        if number == 1:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        pmgp.cross_validate(make, PROBLEM.y, executor=Here(breaks), out=tmp_path, **QUICK)
    rest = Here()
    found = pmgp.cross_validate(make, PROBLEM.y, executor=rest, out=tmp_path, **QUICK)
    assert rest.submitted == 1
    assert_array_equal(found.chain_log_density, serial.chain_log_density)
    with pytest.raises(pmgp.StoreError, match="another model, other observations"):
        pmgp.cross_validate(make, 1 - PROBLEM.y, out=tmp_path, **QUICK)


def two_variables(y):
    model = make(y)
    with model:
        pm.Normal("z", model["f"], observed=np.zeros(N))
    return model


def joint(y):
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 1.0)
        pm.MvNormal("y", np.zeros(N), cov=scale * PROBLEM.covariance, observed=y)
    return model


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (two_variables, "one observed variable, whose rows are left out; it has y, z"),
        (joint, "'y' has one joint density"),
        (lambda y: make(PROBLEM.y), "must use its argument as observed= of 'y'"),
        (
            lambda y: pmgp.models.classifier(np.arange(N)[:, None], y, inducing=[[0.0], [9.0]]),
            r"gp\.compute_log_likelihood\(idata\) and arviz\.loo .* gp\.predict\(idata, X_left_out, observed=y_left",
        ),
    ],
)
def test_models_whose_observations_cannot_be_left_out_are_refused(of, words):
    with pytest.raises(pmgp.ModelError, match=words):
        pmgp.cross_validate(of, PROBLEM.y, **QUICK)


@pytest.mark.parametrize("function", [lambda X, y: make(y), lambda: make(PROBLEM.y)], ids=["two", "none"])
def test_other_arguments_than_the_observations_are_refused(function):
    with pytest.raises(TypeError, match=r"make must take the observations and nothing else \(.*\)\..* lambda y: "):
        pmgp.cross_validate(function, PROBLEM.y, **QUICK)


@pytest.mark.parametrize("folds", [["a"] * N, np.full(N, np.nan), None])
def test_folds_that_are_no_numbers_are_refused(folds):
    with pytest.raises(ValueError, match="folds must be a whole number, or a whole number for each observation"):
        pmgp.cross_validate(make, PROBLEM.y, **QUICK | {"folds": folds})


def test_masked_folds_are_refused():
    folds = np.ma.masked_array(np.arange(N) % 2, np.arange(N) == 3)
    with pytest.raises(ValueError, match="folds has masked values, 1 of"):
        pmgp.cross_validate(make, PROBLEM.y, **QUICK | {"folds": folds})


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (np.ma.masked_array(PROBLEM.y, np.arange(N) == 3), "y has masked values, 1 of 24, the first in row 3"),
        (np.where(np.arange(N) == 3, np.nan, PROBLEM.y), "y has NaN in row 3"),
    ],
)
def test_observations_that_are_missing_are_refused(y, words):
    with pytest.raises(ValueError, match=words):
        pmgp.cross_validate(make, y, **QUICK)


def test_models_of_the_package_can_be_validated():
    X, counts = np.linspace(0.0, 1.0, 8)[:, None], np.array([0, 2, 1, 4, 3, 1, 0, 5])
    build = partial(pmgp.models.count_regression, X)
    found = pmgp.cross_validate(build, counts, **QUICK | {"folds": 2, "draws": 5, "tune": 5})
    assert np.isfinite(found.log_density).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"folds": 1}, "folds must be from 2"),
        ({"folds": N + 1}, "folds must be from 2"),
        ({"folds": np.zeros(N, int)}, "at least two folds"),
        ({"folds": [0, 1]}, "for each of the 24"),
        ({"out": "somewhere", "random_seed": None}, "needs a random_seed"),
    ],
)
def test_settings_that_are_no_partition_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        pmgp.cross_validate(make, PROBLEM.y, **QUICK | settings)


def test_random_folds_have_about_equal_sizes():
    sizes = partial(np.bincount, minlength=5)
    fold = cross_validation._partition(5, 23, 1)
    assert sorted(sizes(fold)) == [4, 4, 5, 5, 5]
    assert not np.array_equal(fold, np.arange(23) % 5)
