"""The estimator: what it predicts, seeds, checkpoints, scikit-learn's conventions, and what it refuses."""

from __future__ import annotations

import pickle
import subprocess
import sys

import jax
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from pmgp.core.deep.likelihoods import LIKELIHOODS
from pmgp.deep import JaxLikelihood, RandomFeatureGP
from pmgp.interface.deep.checkpoint import named
from pmgp.interface.deep.fitting import Problem

RNG = np.random.default_rng(1)
X = RNG.uniform(-2, 2, size=(120, 1))
SMALL = {"layers": 1, "features": 10, "steps": 40, "evaluate_every": 20, "frozen_steps": 20, "batch_size": 30}


def small(**given):
    return RandomFeatureGP(**SMALL | given)


def fitted(y=None, checkpoint=None, **given):
    return small(**given).fit(X, np.sin(X[:, 0]) if y is None else y, checkpoint=checkpoint, progressbar=False)


def test_two_layers_learn_a_step():
    """The held-out error is far below that of a constant, and probabilities follow the labels."""
    y = (X[:, 0] > 0.3).astype(float)
    process = fitted(y, layers=2, likelihood="probit", steps=400, evaluate_every=200, frozen_steps=100)
    found = process.predict([[-1.5], [1.5]])
    assert set(found.data_vars) == {"probability", "complement", "latent_mean", "latent_variance"}
    assert found["probability"].values == pytest.approx([0, 1], abs=0.1)
    assert found["complement"].values == pytest.approx(1 - found["probability"].values)
    assert process.log_predictive_density(X, y).mean() > -0.3


def names(likelihood, y):
    return set(fitted(y, likelihood=likelihood).predict(X[:3]).data_vars)


def test_predictions_have_the_names_of_pmgp_predict():
    latent = {"latent_mean", "latent_variance"}
    counts = np.arange(120.0) % 3
    assert names("softmax", counts) == {"probabilities", *latent}
    assert names(lambda y, f: -abs(y - f[:, 0]), counts) == latent


def test_same_seed_same_numbers_and_resume_equals_uninterrupted(tmp_path):
    path = tmp_path / "run.npz"
    fitted(steps=20, checkpoint=path)
    resumed, whole = fitted(checkpoint=path), fitted()
    assert [one["step"] for one in resumed.history_] == [20, 40]
    assert resumed.history_ == whole.history_
    leaves = (jax.tree.leaves(process.parameters_) for process in (resumed, whole))
    assert all(np.array_equal(*pair) for pair in zip(*leaves, strict=True))
    with pytest.raises(ValueError, match="other settings or data"):
        fitted(checkpoint=path, random_state=1)


def test_a_likelihood_has_the_same_name_in_every_process():
    """Else its checkpoints could not be continued: a function's own representation has its address."""

    def log_density(y, f, theta):
        return -abs(y - f[:, 0])

    found = named(JaxLikelihood(log_density, start=(0.5,)))
    assert "0x" in repr(log_density)
    assert "0x" not in found
    assert log_density.__qualname__ in found
    assert named(JaxLikelihood(log_density, start=(1.5,))) != found


def test_likelihoods_of_the_same_name_that_differ_are_different():
    def scaled(scale, *, power=1.0):
        return lambda y, f: -scale * abs(y - f[:, 0]) ** power

    assert named(scaled(1.0)) == named(scaled(1.0))
    assert len({named(one) for one in (scaled(1.0), scaled(2.0), scaled(1.0, power=2.0))}) == 3
    assert named(lambda y, f: -abs(y - f[:, 0])) != named(lambda y, f: -abs(y - f[:, 1]))
    assert "0x" not in named(LIKELIHOODS["probit"])
    assert named(LIKELIHOODS["probit"].draw) != named(LIKELIHOODS["logit"].draw)


@pytest.mark.parametrize("given", [{"learning_rate": {0: 0.01, 10: 1e-9, 30: 0.02}}, {"samples": {0: 1, 10: 3}}])
def test_settings_by_step_begin_at_their_steps(given):
    """However often the fit is evaluated."""
    often, seldom = (fitted(evaluate_every=every, **given).parameters_ for every in (10, 40))
    for one, other in zip(jax.tree.leaves(often["q"]), jax.tree.leaves(seldom["q"]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fitted_processes_can_be_pickled(dtype):
    y = (X[:, 0] > 0.3).astype(float)
    process = fitted(y, likelihood="probit", dtype=dtype)
    again = pickle.loads(pickle.dumps(process))
    assert again.parameters_["q"][0]["mean"].dtype == dtype
    np.testing.assert_array_equal(again.predict([[0.5]])["probability"], process.predict([[0.5]])["probability"])


@pytest.mark.parametrize("kernel", ["arc-cosine-0", "arc-cosine-1"])
def test_a_point_without_features_has_a_gradient(kernel):
    """Its values have variance zero, where the square root has none."""
    with_zero = np.concatenate([X[1:], np.zeros((1, X.shape[1]))])
    process = small(kernel=kernel).fit(with_zero, np.sin(with_zero[:, 0]), progressbar=False)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(process.parameters_))


def test_densities_have_the_draws_of_their_seed():
    process = fitted()
    first, again, other = (process.log_predictive_density(X[:9], X[:9, 0], random_seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    np.testing.assert_allclose(first, other, atol=0.5)


def test_classes_that_it_was_not_fitted_to_are_named():
    process = fitted((X[:, 0] > 0.3).astype(float), likelihood="softmax")
    with pytest.raises(ValueError, match="row 1 of y is 2, but the process was fitted to 2 classes"):
        process.log_predictive_density(X[:2], [0, 2])


def test_checkpoints_need_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        fitted(checkpoint=tmp_path / "none" / "fit.npz")


def test_hyper_parameters_stay_frozen_until_they_are_freed():
    frozen, free = (fitted(frozen_steps=steps).parameters_["theta"][0]["log_variance"] for steps in (40, 20))
    assert frozen == 0
    assert free != 0


def test_the_held_out_density_decides_what_is_kept_and_when_training_stops():
    """A learning rate that becomes zero gives no further rise, so training stops after the patience."""
    process = fitted(steps=2000, learning_rate={0: 0.01, 20: 0.0}, patience=3)
    assert len(process.history_) == 5  # the first block does not count, as hyper-parameters are frozen
    assert len({one["heldout"] for one in process.history_}) == 1
    assert np.any(process.parameters_["q"][0]["mean"])  # which is zero at the start


def test_a_held_out_density_that_is_not_a_number_is_not_the_best(monkeypatch):
    seen, left = [], iter([np.nan, -1.0, np.nan, -2.0])

    def heldout(self, parameters):
        seen.append(parameters["q"][0]["mean"].copy())
        return jax.numpy.asarray(next(left))

    monkeypatch.setattr(Problem, "heldout", heldout)
    process = fitted(steps=40, evaluate_every=10, patience=None)
    np.testing.assert_array_equal(process.parameters_["q"][0]["mean"], seen[1])
    assert not any(np.array_equal(seen[1], seen[other]) for other in (0, 2, 3))


@pytest.mark.parametrize(("fraction", "rows"), [(0.0, 120), (0.1, 9)])
def test_without_held_out_data_all_steps_are_taken(fraction, rows):
    process = small(validation_fraction=fraction, patience=1, steps=80, frozen_steps=0)
    history = process.fit(X[:rows], np.sin(2 * X[:rows, 0]), progressbar=False).history_
    assert np.isnan([one["heldout"] for one in history]).all()
    assert history[-1]["step"] == 80
    assert len(history) > 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_precision_is_the_one_that_was_asked_for_and_the_users_setting_stays(dtype):
    with jax.enable_x64(dtype == "float32"):
        process = fitted(dtype=dtype)
        assert process.predict(X[:2])["latent_mean"].dtype == dtype
        assert jax.config.jax_enable_x64 == (dtype == "float32")


def test_draws_of_f_are_joint():
    found = fitted().sample_predictions(np.array([[0.5], [0.5]]), draws=5)
    assert np.allclose(found["f"][:, 0], found["f"][:, 1])
    assert not np.allclose(found["y"][:, 0], found["y"][:, 1])


def test_parameters_are_set_and_read_as_in_scikit_learn():
    from sklearn.base import clone

    process = small(features=7)
    assert clone(process).get_params() == process.get_params()
    assert process.set_params(features=9).features == 9
    with pytest.raises(ValueError, match="'feature' is not a parameter"):
        process.set_params(feature=9)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"features": 0}, "features=0: give an integer of at least 1"),
        ({"width": 0}, "width=0"),
        ({"layers": 1.5}, "layers=1.5"),
        ({"samples": {0: 0}}, r"samples\[0\]=0"),
        ({"learning_rate": {20: 0.1}}, r"learning_rate=\{20: 0.1\}: give a value for step 0 too"),
        ({"learning_rate": -0.1}, "learning_rate=-0.1: give a number that is not negative"),
        ({"patience": -3}, "patience=-3: give an integer of at least 1"),
        ({"frozen_steps": -1}, "frozen_steps=-1: give an integer of at least 0"),
        ({"kernel": "cosine"}, "kernel='cosine': choose one of rbf"),
        ({"omega": "fixed"}, "omega='fixed'"),
        ({"likelihood": "gauss"}, "likelihood='gauss'"),
        ({"validation_fraction": 1.0}, "validation_fraction=1.0"),
        ({"device": "abacus"}, "device='abacus', but JAX finds only"),
        ({"devices": "some"}, "devices='some': give \"all\", or a list of devices"),
    ],
)
def test_arguments_that_cannot_be_used(given, message):
    with pytest.raises(ValueError, match=message):
        fitted(**given)


def changed(values, row, value):
    values = np.array(values, dtype=float)
    values[row] = value
    return values


@pytest.mark.parametrize(
    ("likelihood", "X", "y", "message"),
    [
        ("gaussian", changed(X, 7, np.nan), X[:, 0], "row 7 of X has a value that is not finite"),
        ("gaussian", X, changed(X[:, 0], 5, np.inf), "row 5 of y is not finite"),
        (
            "gaussian",
            X,
            np.ma.masked_array(X[:, 0], np.arange(120) == 4),
            "y has masked values, .* in row 4",
        ),
        ("gaussian", X, X[:5, 0], r"y has shape \(5,\), but X has 120 rows"),
        ("gaussian", X[:, 0], X[:, 0], r"X has shape \(120,\)"),
        ("probit", X, changed(np.zeros(120), 3, 2), "row 3 of y is 2: this likelihood takes 0 or 1"),
        ("softmax", X, changed(np.zeros(120), 3, -1), "row 3 of y is -1"),
        ("poisson", X, changed(np.zeros(120), 3, 0.5), "row 3 of y is 0.5"),
    ],
)
def test_data_that_cannot_be_used(likelihood, X, y, message):
    with pytest.raises(ValueError, match=message):
        small(likelihood=likelihood).fit(X, y)


def test_what_is_not_fitted_or_has_other_columns():
    with pytest.raises(ValueError, match="not fitted"):
        small().log_predictive_density(X, X[:, 0])
    with pytest.raises(ValueError, match="draws=0"):
        small().log_predictive_density(X, X[:, 0], draws=0)
    with pytest.raises(ValueError, match="X has 2 columns, but the process was fitted to 1"):
        fitted().predict(np.zeros((3, 2)))
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2})
    process = small().fit(table, X[:, 0], progressbar=False)
    assert_array_equal(process.predict(table.to_numpy()[:3])["mean"], process.predict(table[:3])["mean"])
    with pytest.raises(ValueError, match="X has the columns b, a, but the process was fitted to a, b: give the same"):
        process.predict(table[["b", "a"]])


def test_a_bound_that_overflows_is_named():
    with pytest.raises(FloatingPointError, match="lower learning_rate"):
        fitted(1e30 * X[:, 0])


ABSENT = """
import sys
sys.modules["jax"] = None
import pmgp, pmgp.gp, pmgp.steps
assert pmgp.PseudoMarginal and pmgp.sample and pmgp.predict
print(pmgp.marginal.JaxTiles(memory=5.0).memory)
try:
    pmgp.deep
except ImportError as error:
    print(error)
"""


def test_the_rest_does_without_jax_and_what_needs_it_names_the_extra():
    found = subprocess.run([sys.executable, "-c", ABSENT], check=True, capture_output=True, text=True)
    assert found.stdout.splitlines() == [
        "5.0",
        "pmgp.deep needs jax, which is not installed: pip install 'pmgp[jax]'",
    ]
