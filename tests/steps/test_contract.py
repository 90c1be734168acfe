"""PyMC's contract of a step method: seeds, chains, saved states, pickles, traces, and clear errors."""

from __future__ import annotations

import warnings
from dataclasses import fields
from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pymc.backends import zarr
from pymc.exceptions import SamplingError

import pmgp
from pmgp.core.marginal.evaluation import Fitted
from pmgp.core.transitions.adaptive import ManifoldLangevin
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.steps.pseudo_marginal import PseudoMarginalState
from pmgp.interface.steps.validation import large_spread

FAST = {"mode": INTERPRETED}
VARIABLES = ("lengthscale", "variance", "f")
TUNE = 120
# Attributes that change while sampling and are functions of the state and the data.
CACHES = {"_current", "_evaluate"}
STATS = {
    "accepted": np.float64,
    "acceptance_rate": np.float64,
    "log_marginal_likelihood": np.float64,
    "importance_ess": np.float64,
    "importance_draws": np.int64,
    "orthants": bool,
    "sequential": bool,
    "n_cholesky": np.int64,
    "n_inverse": np.int64,
    "n_matmul": np.int64,
    "n_newton": np.int64,
    "indefinite": bool,
    "converged": bool,
    "exact": bool,
    "screen_acceptance_rate": np.float64,
    "n_steps": np.int64,
    "step_size": np.float64,
    "energy_error": np.float64,
    "diverging": bool,
}


@pytest.fixture(scope="module")
def step(probit_model):
    """One step method for all tests of this module: every chain must forget the one before."""
    return pmgp.PseudoMarginal(model=probit_model)


@pytest.fixture(scope="module")
def other_step(probit_model):
    return pmgp.PseudoMarginal(model=probit_model)


@pytest.fixture(scope="module")
def start(probit_model):
    return probit_model.initial_point()


def sample(model, step=None, **settings):
    settings = {"draws": 12, "tune": 12, "chains": 1, "cores": 1, "random_seed": 7} | settings
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        step = pmgp.PseudoMarginal(compile_kwargs=FAST) if step is None else step
        return pm.sample(step=step, **quiet | settings)


def assert_same_draws(one, other):
    for name in VARIABLES:
        assert_array_equal(one["posterior"][name], other["posterior"][name])
    stat = "log_marginal_likelihood"
    assert_array_equal(one["sample_stats"][stat], other["sample_stats"][stat])


def step_once(step, point, iteration: int, tune: int):
    if iteration == tune:
        step.stop_tuning()
    point, (stats,) = step.step(point)
    return point, stats


def advance(step, point, begin: int, end: int, tune: int = TUNE):
    """PyMC's loop from iteration `begin` to `end`: the last point, and what was drawn."""
    path = []
    for iteration in range(begin, end):
        point, stats = step_once(step, point, iteration, tune)
        path.append(np.concatenate([point[name].ravel() for name in sorted(point)]))
        path[-1] = np.append(path[-1], stats["log_marginal_likelihood"])
    return point, np.array(path)


def chain(step, start, seed: int, length: int = 80, tune: int = 60) -> np.ndarray:
    step.setup_chain(np.random.default_rng(seed), tune, length - tune)
    return advance(step, start, 0, length, tune)[1]


# Seeds and chains


def test_same_seed_same_trace(probit_model, step):
    first = sample(probit_model, step, chains=2)
    assert_same_draws(first, sample(probit_model, step, chains=2))
    other = sample(probit_model, step, chains=2, random_seed=8)
    assert not np.array_equal(first["posterior"]["f"], other["posterior"]["f"])
    f = first["posterior"]["f"].to_numpy()
    assert not np.array_equal(f[0], f[1])


def test_a_chain_does_not_depend_on_the_one_before(step, other_step, start):
    chain(step, start, seed=1)
    assert_array_equal(chain(step, start, seed=2), chain(other_step, start, seed=2))


def test_a_chain_does_not_depend_on_one_that_was_broken_off(step, other_step, start):
    chain(step, start, seed=1, length=17)
    assert_array_equal(chain(step, start, seed=3), chain(other_step, start, seed=3))


def test_chains_in_sequence_equal_chains_in_parallel(probit_model, step):
    sequential = sample(probit_model, step, chains=2)
    assert_same_draws(sequential, sample(probit_model, step, chains=2, cores=2))


# State


@pytest.mark.parametrize("saved", [1, 10, 60, 90, TUNE - 1, TUNE, TUNE + 1, TUNE + 10, TUNE + 15])
def test_a_restored_state_repeats_the_next_draws(step, other_step, start, saved):
    step.setup_chain(np.random.default_rng(1), TUNE, 60)
    point, _ = advance(step, start, 0, saved)
    state = step.sampling_state
    _, expected = advance(step, point, saved, saved + 20)
    step.sampling_state = state
    assert_array_equal(advance(step, point, saved, saved + 20)[1], expected)
    other_step.sampling_state = state
    assert_array_equal(advance(other_step, point, saved, saved + 20)[1], expected)


@pytest.mark.parametrize("saved", [75, 100])
def test_a_state_restored_right_after_a_refit_repeats_the_next_draws(step, start, saved):
    for seed in (1, 2, 3):
        step.setup_chain(np.random.default_rng(seed), TUNE, 60)
        point, _ = advance(step, start, 0, saved)
        state = step.sampling_state
        _, expected = advance(step, point, saved, saved + 15)
        step.sampling_state = state
        assert_array_equal(advance(step, point, saved, saved + 15)[1], expected)


@pytest.mark.parametrize("saved", [30, TUNE + 10])
def test_a_saved_state_is_a_copy(step, start, saved):
    step.setup_chain(np.random.default_rng(1), TUNE, 60)
    point, _ = advance(step, start, 0, saved)
    state = step.sampling_state
    before = cloudpickle.dumps(state)
    advance(step, point, saved, saved + 20)
    assert cloudpickle.dumps(state) == before


@pytest.mark.parametrize(("begin", "end"), [(0, 60), (60, TUNE), (TUNE - 5, TUNE + 40)])
def test_everything_that_changes_is_in_the_state(step, start, begin, end):
    chain(step, start, 0)  # What is computed once and kept is there from now on.
    step.setup_chain(np.random.default_rng(1), TUNE, 60)
    point, _ = advance(step, start, 0, begin)
    before = {name: cloudpickle.dumps(value) for name, value in vars(step).items()}
    advance(step, point, begin, end)
    changed = {name for name, value in vars(step).items() if cloudpickle.dumps(value) != before[name]}
    assert {"theta", "latent", "rng"} <= changed
    assert changed <= {field.name for field in fields(PseudoMarginalState)} | CACHES


def test_a_state_of_another_model_is_refused(step, start):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.zeros(2), cov=scale * np.eye(2))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    foreign = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    with pytest.raises(ValueError, match="var_names"):
        foreign.sampling_state = step.sampling_state


@pytest.mark.parametrize("saved", [0, 60, TUNE + 10])
def test_a_pickled_step_continues_identically(step, start, saved):
    step.setup_chain(np.random.default_rng(4), TUNE, 60)
    point, _ = advance(step, start, 0, saved)
    twin = cloudpickle.loads(cloudpickle.dumps(step))
    _, expected = advance(step, point, saved, saved + 30)
    assert_array_equal(advance(twin, point, saved, saved + 30)[1], expected)


# What pm.sample returns


def test_sample_stats_have_the_promised_names_and_types(probit_model, step):
    idata = sample(probit_model, step, chains=2, discard_tuned_samples=False)
    stats = idata["sample_stats"]
    for name, dtype in STATS.items():
        assert stats[name].shape == (2, 12)
        assert stats[name].dtype == dtype
    assert {*STATS, "tune"} == set(step.stats_dtypes_shapes)
    assert np.isfinite(stats["log_marginal_likelihood"]).all()
    ess, number = stats["importance_ess"], stats["importance_draws"]
    assert bool(((ess >= 1) & (ess <= number)).all())
    assert bool(((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1)).all())
    assert bool((stats["n_cholesky"] >= stats["n_newton"]).all())
    assert stats["n_newton"].min() >= 1
    assert bool(np.isnan(idata["warmup_sample_stats"]["importance_ess"]).all())


def test_accepted_means_that_theta_moved(probit_model, step):
    idata = sample(probit_model, step, draws=60)
    lengthscale = idata["posterior"]["lengthscale"].to_numpy()[0]
    moved = np.diff(lengthscale) != 0.0
    assert_array_equal(moved, idata["sample_stats"]["accepted"].to_numpy()[0, 1:])
    assert 0 < moved.sum() < moved.size


@pytest.mark.parametrize("refresh_every", [0, 1])
def test_f_moves_in_every_iteration(probit_model, refresh_every):
    step = pmgp.PseudoMarginal(model=probit_model, refresh_every=refresh_every, compile_kwargs=FAST)
    f = sample(probit_model, step, draws=30)["posterior"]["f"].to_numpy()[0]
    assert np.all(np.diff(f, axis=0) != 0.0)


def assert_refreshed_in(iterations: np.ndarray, model: pm.Model, step: pmgp.PseudoMarginal) -> None:
    """From iteration 2 to 60 the stored estimate changes at the given ones, and when a proposal is accepted."""
    stats = sample(model, step, draws=60)["sample_stats"]
    changed = np.diff(stats["log_marginal_likelihood"].to_numpy()[0]) != 0.0
    accepted = stats["accepted"].to_numpy()[0, 1:] == 1.0
    assert_array_equal(changed, accepted | iterations)


@pytest.mark.parametrize("every", [0, 7])
def test_the_stored_estimate_changes_only_on_acceptance_and_refreshment(probit_model, every):
    step = pmgp.PseudoMarginal(model=probit_model, refresh_every=every, compile_kwargs=FAST)
    refreshed = np.arange(2, 61) % every == 0 if every else np.zeros(59, bool)
    assert_refreshed_in(refreshed, probit_model, step)


@pytest.mark.parametrize(("estimator", "every"), [("importance", 1), ("annealed", 10)])
def test_how_often_an_estimate_is_refreshed_by_default(probit_model, estimator, every):
    step = pmgp.PseudoMarginal(model=probit_model, estimator=estimator, compile_kwargs=FAST)
    assert_refreshed_in(np.arange(2, 61) % every == 0, probit_model, step)


def test_without_tuning(probit_model, step):
    idata = sample(probit_model, step, tune=0, chains=2)
    assert idata["posterior"]["f"].shape == (2, 12, 20)
    assert (idata["sample_stats"]["importance_draws"] > 0).all()
    assert np.isfinite(idata["posterior"]["f"]).all()


def test_tuning_draws_can_be_kept(probit_model, step):
    idata = sample(probit_model, step, tune=15, discard_tuned_samples=False)
    assert idata["warmup_posterior"]["f"].shape == (1, 15, 20)
    assert idata["posterior"]["f"].shape == (1, 12, 20)
    assert_same_draws(idata, sample(probit_model, step, tune=15))


def test_initial_values_are_where_the_chain_starts(probit_model, step):
    initvals = {"lengthscale": 20.0, "variance": 0.01}
    for seed in range(3):
        idata = sample(probit_model, step, tune=0, draws=3, initvals=initvals, random_seed=seed)
        first = idata["posterior"].isel(chain=0, draw=0)
        accepted = bool(idata["sample_stats"]["accepted"][0, 0])
        for name, value in initvals.items():
            distance = abs(np.log(float(first[name]) / value))
            assert distance < 3.0 if accepted else distance < 1e-12


def test_chains_that_tune_start_apart_but_near_the_initial_values(step, start):
    at = {**start, "lengthscale_log__": np.array(1.5), "variance_log__": np.array(-2.0)}
    first = []
    for seed in range(8):
        step.setup_chain(np.random.default_rng(seed), 5, 5)
        point, (stats,) = step.step(at)
        if not stats["accepted"]:
            first.append([point["lengthscale_log__"] - 1.5, point["variance_log__"] + 2.0])
    assert len(first) > 1
    assert np.all(np.abs(first) <= 1.0)
    assert np.ptp(np.array(first), axis=0).min() > 0.1


def test_zarr_trace_holds_the_same_draws(probit_model, step, monkeypatch):
    # PyMC pickles the sampling state into the store; numcodecs asks for consent before it reads that back.
    monkeypatch.setattr("numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE", True)
    expected = sample(probit_model, step, chains=2)["posterior"]
    trace = zarr.ZarrTrace()
    # Its conversion to a DataTree needs an older xarray; the stored groups are looked at themselves.
    sample(probit_model, step, chains=2, trace=trace, return_inferencedata=False)
    for name in ("lengthscale", "variance", "f"):
        assert_array_equal(trace.posterior[name][:], expected[name])


def test_an_interrupted_run_returns_what_it_has(probit_model, step):
    def interrupt(trace, draw):
        if not draw.tuning and draw.draw_idx == 12 + 6:
            raise KeyboardInterrupt

    whole = sample(probit_model, step)["posterior"]
    part = sample(probit_model, step, callback=interrupt)["posterior"]
    assert part["f"].shape == (1, 7, 20)
    assert_array_equal(part["f"], whole["f"][:, :7])


@pytest.mark.parametrize("reuse", [False, True])
def test_data_replaced_between_runs(binary_data, reuse):
    X, y = binary_data
    with pm.Model() as model:
        data_X, data_y = pm.Data("X", X), pm.Data("labels", y)
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=4.0 * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        f = gp.prior("f", X=data_X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=data_y)
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    assert sample(model, step)["posterior"]["f"].shape == (1, 12, 20)
    with model:
        pm.set_data({"X": X[:13], "labels": y[:13]})
    after = sample(model, step if reuse else None)["posterior"]
    assert after["f"].shape == (1, 12, 13)
    with pm.Model() as small:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=4.0 * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        f = gp.prior("f", X=X[:13], reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=y[:13])
    assert_allclose(after["f"], sample(small)["posterior"]["f"], rtol=1e-8)


@pytest.mark.parametrize(
    "approximation",
    [
        pmgp.approximations.Laplace(sweeps=0),
        pmgp.approximations.Laplace(),
        pmgp.approximations.ExpectationPropagation(tolerance=1e-8),
    ],
)
def test_with_a_gaussian_likelihood_all_importance_weights_are_equal(binary_data, rng, approximation):
    """Laplace's approximation is exact then, and so is the fixed point of moment matching."""
    X, _ = binary_data
    with pm.Model() as model:
        sigma = pm.HalfNormal("sigma", 1)
        variance = pm.Gamma("variance", 2, 0.5)
        gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=1.0))
        f = gp.prior("f", X=X, reparameterize=False)
        pm.Normal("y", f, sigma, observed=X[:, 0] + 0.3 * rng.normal(size=20))
    step = pmgp.PseudoMarginal(model=model, approximation=approximation)
    idata = sample(model, step, chains=2, tune=60)
    assert set(idata["posterior"].data_vars) == {"sigma", "variance", "f"}
    ratio = idata["sample_stats"]["importance_ess"] / idata["sample_stats"]["importance_draws"]
    assert float(ratio.min()) > 0.999


@pytest.mark.parametrize(("width", "columns"), [(80, 0), (120, 2)])
def test_a_narrow_terminal_is_left_to_the_times_of_pymc(step, monkeypatch, width, columns):
    monkeypatch.setenv("COLUMNS", str(width))
    assert len(step._progressbar_config(1)[0]) == columns


def test_the_progress_bar_shows_acceptance_and_evidence(probit_model, step, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    sample(probit_model, step, progressbar=True, quiet=False)
    columns, stats = step._progressbar_config(3)
    assert len(columns) == len(stats) == 2
    (update,) = step._make_progressbar_update_functions()
    shown = update({"acceptance_rate": 0.5, "log_marginal_likelihood": -3.0})
    assert shown == {"acceptance": 0.5, "log_evidence": -3.0}
    assert update({"acceptance_rate": 0.0, "log_marginal_likelihood": -4.0})["acceptance"] < 0.5


# Expectation propagation


@pytest.fixture(scope="module")
def matching_step(probit_model):
    return pmgp.PseudoMarginal(model=probit_model, approximation="ep")


@pytest.mark.parametrize("saved", [1, 75, TUNE, TUNE + 10])
def test_a_restored_state_repeats_the_next_draws_with_expectation_propagation(matching_step, start, saved):
    matching_step.setup_chain(np.random.default_rng(3), TUNE, 60)
    point, _ = advance(matching_step, start, 0, saved)
    state = matching_step.sampling_state
    _, expected = advance(matching_step, point, saved, saved + 8)
    matching_step.sampling_state = state
    assert_array_equal(advance(matching_step, point, saved, saved + 8)[1], expected)


def test_predicted_sites_leave_few_operations_to_a_sampling_iteration(probit_model, matching_step):
    stats = sample(probit_model, matching_step, draws=200, tune=300)["sample_stats"]
    assert stats["converged"].all()
    assert float((stats["n_cholesky"] + stats["n_inverse"]).mean()) < 6.0


def test_proposals_without_convergence_are_counted_and_reported_once(probit_model, start):
    approximation = pmgp.approximations.ExpectationPropagation(tolerance=1e-9, max_sweeps=2)
    step = pmgp.PseudoMarginal(model=probit_model, approximation=approximation, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 0, 30)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        step.stop_tuning()
        point, stats = start, []
        for _ in range(30):
            point, (row,) = step.step(point)
            stats.append(row["converged"])
    assert step.unconverged == sum(not converged for converged in stats) > 0
    [report] = [str(w.message) for w in caught if "did not converge" in str(w.message)]
    assert report.startswith(f"at {step.unconverged} of 30 proposals")


def test_terms_that_are_not_vectors_are_refused_by_expectation_propagation(binary_data):
    X, y = binary_data
    with pm.Model() as model:
        variance = pm.Gamma("variance", 2, 0.5)
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=1.0)).prior("f", X=X, reparameterize=False)
        pm.Potential("y", pt.dot(np.ones(len(y)), y * f - pt.log1p(pt.exp(f))))
    step = pmgp.PseudoMarginal(model=model, approximation="ep", compile_kwargs=FAST)
    with pytest.raises(ValueError, match="one by one"):
        chain(step, model.initial_point(), 0, 5, 3)
    assert pmgp.PseudoMarginal(model=model, compile_kwargs=FAST).approximation == pmgp.approximations.Laplace()


def test_expectation_propagation_is_the_default_where_it_can_be_had(probit_model):
    assert (
        pmgp.PseudoMarginal(model=probit_model, compile_kwargs=FAST).approximation
        == pmgp.approximations.ExpectationPropagation()
    )


# Other estimators


def test_annealed_particles_make_the_same_contract(probit_model, start):
    step = pmgp.PseudoMarginal(model=probit_model, estimator=pmgp.estimators.AnnealedImportanceSampling(draws=3))
    stats = sample(probit_model, step)["sample_stats"]
    assert (stats["importance_draws"] == 3).all()
    assert stats["exact"].all()
    step.setup_chain(np.random.default_rng(3), 20, 60)
    point, _ = advance(step, start, 0, 25, 20)
    state = step.sampling_state
    _, expected = advance(step, point, 25, 30, 20)
    step.sampling_state = state
    assert_array_equal(advance(step, point, 25, 30, 20)[1], expected)


def test_orthants_are_refused_without_a_probit_link(binary_data):
    X, y = binary_data
    with pm.Model():
        variance = pm.Gamma("variance", 2, 0.5)
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=1.0)).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliLogit("y", f, observed=y)
        with pytest.raises(ValueError, match="OrthantSampling needs labels with a probit link"):
            pmgp.PseudoMarginal(estimator="orthant", compile_kwargs=FAST)


def test_without_an_estimator_the_sample_is_labelled_approximate(probit_model):
    step = pmgp.PseudoMarginal(model=probit_model, estimator="none", approximation="ep")
    stats = sample(probit_model, step, draws=30)["sample_stats"]
    assert not stats["exact"].any()
    # The second stage has nothing to correct.
    assert set(np.unique(stats["acceptance_rate"])) <= {0.0, 1.0}


# Refusals

BAD_SETTINGS = [
    ({"target_acceptance": 0.0}, r"target_acceptance .* not 0\.0"),
    ({"target_acceptance": 1.5}, r"target_acceptance .* not 1\.5"),
    ({"target_acceptance": np.nan}, "target_acceptance .* not nan"),
    ({"proposal": "nuts"}, "unknown proposal 'nuts'; known are"),
    ({"proposal": ManifoldLangevin()}, r"proposal may .* ManifoldLangevin.* needs a metric"),
    ({"transitions": 0}, "transitions must be an integer of at least 1, not 0"),
    ({"delayed_acceptance": "no"}, "delayed_acceptance must be True or False, not 'no'"),
    ({"latent": ["f", "f"]}, "latent names 'f' twice"),
    ({"transitions": 2, "delayed_acceptance": False}, "delayed_acceptance=False needs transitions=1"),
    ({"latent_moves": 0}, "latent_moves .* not 0"),
    ({"refresh_every": -2}, "refresh_every .*-2"),
    ({"approximation": "magic"}, "unknown approximation 'magic'; known are auto, ep, laplace"),
    (
        {"estimator": "guess"},
        "unknown estimator 'guess'; known are annealed, auto, importance, none, orthant, rao-blackwell, sequential",
    ),
    (
        {"estimator": 64},
        "estimator must be one of annealed, auto, importance, none, orthant, rao-blackwell, .* not 64, which has no",
    ),
    (
        {"approximation": None},
        "approximation must be one of auto, ep, laplace or an object .* not None, which has no",
    ),
]


@pytest.mark.parametrize(("settings", "message"), BAD_SETTINGS)
def test_settings_out_of_range_are_named(probit_model, settings, message):
    with pytest.raises(ValueError, match=message):
        pmgp.PseudoMarginal(model=probit_model, compile_kwargs=FAST, **settings)


def test_names_and_instances_mean_the_same(probit_model, start):
    named = pmgp.PseudoMarginal(
        model=probit_model, approximation="laplace", estimator="importance", compile_kwargs=FAST
    )
    given = pmgp.PseudoMarginal(
        model=probit_model,
        approximation=pmgp.approximations.Laplace(),
        estimator=pmgp.estimators.ImportanceSampling(),
        compile_kwargs=FAST,
    )
    assert_array_equal(chain(named, start, 1, 20, 10), chain(given, start, 1, 20, 10))


def test_the_number_of_importance_samples_can_be_given(probit_model):
    estimator = pmgp.estimators.ImportanceSampling(draws=6)
    step = pmgp.PseudoMarginal(model=probit_model, estimator=estimator, compile_kwargs=FAST)
    assert (sample(probit_model, step)["sample_stats"]["importance_draws"] == 6).all()


def test_some_variables_only_are_refused(probit_model):
    with pytest.raises(ModelError, match=r"the prior of 'f' depends on variance_log__, which PseudoMarginal must move"):
        pmgp.PseudoMarginal([probit_model["lengthscale"]], model=probit_model)
    with pytest.raises(ModelError, match="must move itself: add it to vars, or leave vars out"):
        pmgp.PseudoMarginal(model=probit_model, blocked=False)


def test_all_variables_may_be_given_in_any_order(probit_model, step, start):
    variables = [probit_model[name] for name in ("f", "variance", "lengthscale")]
    given = pmgp.PseudoMarginal(variables, model=probit_model)
    assert_array_equal(chain(given, start, 1, 10, 5), chain(step, start, 1, 10, 5))


@pytest.mark.parametrize("kind", [pm.Slice, pm.Metropolis])
@pytest.mark.parametrize("first", [True, False])
def test_another_step_that_moves_theta_is_refused(probit_model, step, kind, first):
    with probit_model:
        other = kind([probit_model["lengthscale"]], compile_kwargs=FAST)
    steps = [step, other] if first else [other, step]
    with pytest.raises(SamplingError, match="another step method moved the hyper-parameters"):
        sample(probit_model, steps, draws=30)


def test_it_is_never_chosen_by_itself(probit_model):
    variable = probit_model["lengthscale"]
    assert pmgp.PseudoMarginal._competence([variable], [True])[0] == 0


def correlated_pair(initval: float | None = None, spread: float = 1.5) -> pm.Model:
    """Two latent values with covariance r, indefinite where |r| > 1."""
    with pm.Model() as model:
        r = pm.Normal("r", 0, spread, initval=initval)
        f = pm.MvNormal("f", np.zeros(2), cov=pt.stack([pt.stack([1.0, r]), pt.stack([r, 1.0])]))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    return model


def step_of(model: pm.Model, tune: int, seed: int = 0):
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(seed), tune, 60)
    return step


def test_nan_in_the_inputs_is_refused_by_the_constructor(binary_data):
    X, y = binary_data
    X = X.copy()
    X[4, 1] = np.nan
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=lengthscale))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, reparameterize=False), observed=y)
    with pytest.raises(ModelError, match=r"inputs X of 'f', of shape \(20, 2\), .*not finite in row 4"):
        step_of(model, 10)


def test_a_second_step_of_a_model_shares_its_functions_and_reads_the_data_again(binary_data):
    X, y = binary_data
    with pm.Model() as model:
        data = pm.Data("X", X)
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=lengthscale))
        pmgp.BernoulliProbit("y", gp.prior("f", X=data, reparameterize=False), observed=y)
    first, second = (pmgp.PseudoMarginal(model=model, compile_kwargs=FAST) for _ in range(2))
    assert second.latent_model is first.latent_model
    assert pmgp.EllipticalSlice(model=model, compile_kwargs=FAST).latent_model is not first.latent_model
    with model:
        pm.set_data({"X": np.where(X[4, 1] == X, np.nan, X)})
    with pytest.raises(ModelError, match="not finite in row 4"):
        pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)


def test_two_steps_that_share_their_functions_do_not_disturb_each_other(step, other_step, start):
    assert other_step.latent_model is step.latent_model
    expected = chain(step, start, seed=5, length=20, tune=10)
    for each in (step, other_step):
        each.setup_chain(np.random.default_rng(5), 10, 10)
    paths, points = [[], []], [start, start]
    for iteration in range(20):
        for number, each in enumerate((step, other_step)):
            points[number], drawn = advance(each, points[number], iteration, iteration + 1, 10)
            paths[number].append(drawn[0])
    assert_array_equal(paths, [expected, expected])


def test_a_start_outside_the_prior_is_refused():
    with pm.Model() as model:
        level = pm.Flat("level")
        pm.Potential("limit", pt.switch(level > 5.0, -np.inf, 0.0))
        f = pm.MvNormal("f", pt.zeros(2) + level, cov=np.eye(2))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    start = {**model.initial_point(), "level": np.array(7.0)}
    with pytest.raises(SamplingError, match=r"prior density of the hyper-parameters is not finite .*level=7\.0"):
        step_of(model, 10).step(start)


def overflowing(initial: float) -> pm.Model:
    """Counts whose rates overflow at the initial amplitude of f, exp(initial)."""
    with pm.Model() as model:
        amplitude = pm.LogNormal("amplitude", 0.0, 3.0, initval=np.exp(initial))
        cov = amplitude**2 * pm.gp.cov.Matern52(1, ls=1.0)
        f = pm.gp.Latent(cov_func=cov).prior("f", X=np.linspace(0.0, 1.0, 3)[:, None], reparameterize=False)
        pm.ZeroInflatedPoisson("y", psi=0.8, mu=pt.exp(f), observed=[2000, 0, 0])
    return model


def test_a_chain_starts_elsewhere_where_the_likelihood_overflows():
    model = overflowing(12.5)
    step = step_of(model, 10)
    with pytest.warns(UserWarning, match=r"a chain starts at amplitude_log__=.*initial point: .*amplitude_log__=12\.5"):
        point, _ = step.step(model.initial_point())
    assert abs(point["amplitude_log__"] - 12.5) > 1.0
    assert np.isfinite(model.compile_logp()(point))
    # After tuning a chain goes on from where it is, or not at all.
    with pytest.raises(SamplingError, match=r"cannot start: .*amplitude_log__=12\.5"):
        step_of(model, 0).step(model.initial_point())


@pytest.mark.parametrize(("evidence", "expected"), [(-7.0, -6.0), (-1e27, -1e27), (1e27, -np.inf), (np.nan, -np.inf)])
def test_evidences_that_are_rounding_alone_are_rejected(evidence, expected):
    """At an amplitude of exp(51) one was 1e27, and the chain stayed there; from -1e27 it can come back."""
    fitted = Fitted(np.zeros(1), 1.0, SimpleNamespace(log_evidence=evidence), None)
    assert fitted.log_screen == expected


INDEFINITE = r"not positive definite.*r=.*on the unconstrained scale"


@pytest.mark.parametrize("r", [5.0, 1.3])
@pytest.mark.parametrize("tune", [0, 10])
def test_an_indefinite_covariance_is_refused_at_the_start(r, tune):
    model = correlated_pair()
    step = step_of(model, tune)
    with pytest.raises(SamplingError, match=INDEFINITE):
        step.step({**model.initial_point(), "r": np.array(r)})


def test_an_indefinite_proposal_is_rejected_and_counted():
    model = correlated_pair(spread=0.7)
    step = step_of(model, 100)
    point, _ = advance(step, model.initial_point(), 0, 100, 100)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stats = []
        for iteration in range(100, 160):
            point, row = step_once(step, point, iteration, 100)
            stats.append(row)
            assert abs(point["r"]) <= 1.001
    counted = sum(row["indefinite"] for row in stats)
    assert counted > 0
    assert step.indefinite == counted == step.sampling_state.indefinite
    assert not any(row["indefinite"] and row["accepted"] for row in stats)
    reports = [str(w.message) for w in caught if "could not be factorized" in str(w.message)]
    assert len(reports) == 1
    assert reports[0].startswith(f"at {counted} of 60 proposals")


@pytest.mark.filterwarnings("ignore:at . of 5 proposals")
def test_tuning_does_not_end_at_an_indefinite_covariance():
    model = correlated_pair()
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    for seed in range(6):
        chain(step, model.initial_point(), seed, 20, 15)
        assert abs(step.theta[0]) <= 1.001


def test_a_spread_without_bound_is_reported_with_other_advice():
    assert "sigma = 0.01 + pm.math.exp(g)" in large_spread(64, np.inf, "ImportanceSampling")
    assert "sigma" not in large_spread(64, 2.0, "ImportanceSampling")


def test_a_large_spread_of_the_estimate_is_reported(probit_model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 4.0, 0.1)
        gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.Matern32(2, ls=0.5))
        f = gp.prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=rng.integers(0, 2, size=60))
    estimator = pmgp.estimators.ImportanceSampling(draws=1)
    step = pmgp.PseudoMarginal(model=model, estimator=estimator, compile_kwargs=FAST)
    with pytest.warns(UserWarning, match=r"with 1 importance sample .*ImportanceSampling\(draws"):
        chain(step, model.initial_point(), 0, 32, 30)
