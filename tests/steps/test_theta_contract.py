"""PyMC's contract of the schemes on theta: seeds, chains, saved states, pickles, traces, and clear errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pymc.exceptions import SamplingError
from pymc.step_methods.compound import CompoundStep

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.theta_updates import ThetaState

FAST = {"mode": INTERPRETED}
VARIABLES = ("lengthscale", "variance", "f")
TUNE = 40
# Attributes that change while sampling and are functions of the state and the data.
CACHES = {"_current", "shared_model"}
# Compiled functions remember what they were last given.
FUNCTIONS = {"model"}
STATS = {
    "accepted": np.float64,
    "acceptance_rate": np.float64,
    "n_evaluations": np.int64,
    "n_cholesky": np.int64,
    "n_inverse": np.int64,
    "n_matmul": np.int64,
}
SCHEMES: dict[str, Callable[..., Any]] = {
    "ancillary": pmgp.steps.Ancillary,
    "ancillary-hmc": lambda **kw: pmgp.steps.Ancillary(operator="hmc", **kw),
    "ancillary-smmala": lambda **kw: pmgp.steps.Ancillary(operator="smmala", **kw),
    "sufficient": pmgp.steps.Sufficient,
    "sufficient-hmc": lambda **kw: pmgp.steps.Sufficient(operator="hmc", **kw),
    "sufficient-smmala": lambda **kw: pmgp.steps.Sufficient(operator="smmala", **kw),
    "interweaving": pmgp.steps.Interweaving,
    "interweaving-smmala": lambda **kw: pmgp.steps.Interweaving(operator="smmala", **kw),
    "surrogate": pmgp.steps.Surrogate,
    "joint": pmgp.steps.JointUpdate,
}
CLASSES = (
    pmgp.steps.Ancillary,
    pmgp.steps.Sufficient,
    pmgp.steps.Interweaving,
    pmgp.steps.Surrogate,
    pmgp.steps.JointUpdate,
)
LATENT: dict[str, Callable[..., Any]] = {
    "slice": pmgp.EllipticalSlice,
    "slice-laplace": lambda **kw: pmgp.EllipticalSlice(reference="laplace", **kw),
    "metropolis": pmgp.steps.LatentMetropolis,
    "hmc v1": pmgp.steps.LatentHMC,
    "hmc v2": lambda **kw: pmgp.steps.LatentHMC(mass="prior", **kw),
    "smmala": pmgp.steps.LatentSMMALA,
}
# One case for each code path: the step methods share one class, so that every kind of scheme is here once, one of them
# with derivatives.
every_scheme = pytest.mark.parametrize("scheme", ["interweaving-smmala", "surrogate", "joint"])
every_class = pytest.mark.parametrize("kind", [pmgp.steps.Surrogate, pmgp.steps.Ancillary])


@cache
def steps_of(
    model: pm.Model, scheme: str, latent: str = "hmc v2", copy: int = 0, interpreted: bool = True
) -> CompoundStep:
    """One step method for all tests of this module: every chain must forget the one before."""
    settings = {"model": model, "compile_kwargs": FAST if interpreted else None}
    return CompoundStep([SCHEMES[scheme](**settings), LATENT[latent](**settings)])


@pytest.fixture
def steps(probit_model, scheme) -> CompoundStep:
    return steps_of(probit_model, scheme)


@pytest.fixture
def other_steps(probit_model, scheme) -> CompoundStep:
    return steps_of(probit_model, scheme, copy=1)


@pytest.fixture(scope="module")
def start(probit_model):
    """With an f that the hyper-parameters could have given, as theta moves little given one that they could not."""
    point = probit_model.initial_point()
    parts = take_apart(probit_model, compile_kwargs=FAST)
    f = parts.prior(parts.ravel(point)).sample(np.random.default_rng(0), 1)[0]
    return point | {"f": f}


def sample(model, steps, **settings):
    settings = {"draws": 12, "tune": 12, "chains": 1, "cores": 1, "random_seed": 7} | settings
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(step=steps, **quiet | settings)


def assert_same_draws(one, other):
    for name in VARIABLES:
        assert_array_equal(one["posterior"][name], other["posterior"][name])
    assert_array_equal(one["sample_stats"]["acceptance_rate"], other["sample_stats"]["acceptance_rate"])


def advance(steps, point, begin: int, end: int, tune: int = TUNE):
    """PyMC's loop from iteration `begin` to `end`: the last point, and what was drawn."""
    path = []
    for iteration in range(begin, end):
        if iteration == tune:
            steps.stop_tuning()
        point, stats = steps.step(point)
        path.append(np.concatenate([point[name].ravel() for name in sorted(point)]))
        path[-1] = np.append(path[-1], [row["acceptance_rate"] for row in stats if "acceptance_rate" in row])
    return point, np.array(path)


def chain(steps, start, seed: int, length: int = 30, tune: int = 20) -> np.ndarray:
    steps.setup_chain(np.random.default_rng(seed), tune, length - tune)
    return advance(steps, start, 0, length, tune)[1]


# Seeds and chains


@every_scheme
def test_same_seed_same_trace(probit_model, steps, scheme):
    first = sample(probit_model, steps, chains=2)
    assert_same_draws(first, sample(probit_model, steps, chains=2))
    other = sample(probit_model, steps, chains=2, random_seed=8)
    assert not np.array_equal(first["posterior"]["f"], other["posterior"]["f"])
    lengthscale = first["posterior"]["lengthscale"].to_numpy()
    assert not np.array_equal(lengthscale[0], lengthscale[1])


@every_scheme
def test_a_chain_does_not_depend_on_the_one_before(steps, other_steps, start, scheme):
    chain(steps, start, seed=1)
    expected = chain(other_steps, start, seed=2)
    assert_array_equal(chain(steps, start, seed=2), expected)
    chain(steps, start, seed=1, length=13)
    assert_array_equal(chain(steps, start, seed=2), expected)


@pytest.mark.parametrize("scheme", ["interweaving"])
def test_chains_in_sequence_equal_chains_in_parallel(probit_model, steps, scheme):
    sequential = sample(probit_model, steps, chains=2)
    assert_same_draws(sequential, sample(probit_model, steps, chains=2, cores=2, mp_ctx="fork"))


# State


@every_scheme
@pytest.mark.parametrize("saved", [1, TUNE - 1, TUNE, TUNE + 5])
def test_a_restored_state_repeats_the_next_draws(steps, other_steps, start, scheme, saved):
    steps.setup_chain(np.random.default_rng(1), TUNE, 30)
    point, _ = advance(steps, start, 0, saved)
    state = steps.sampling_state
    before = cloudpickle.dumps(state)
    _, expected = advance(steps, point, saved, saved + 8)
    assert cloudpickle.dumps(state) == before
    for restored in (steps, other_steps):
        restored.sampling_state = state
        assert_array_equal(advance(restored, point, saved, saved + 8)[1], expected)


@every_scheme
@pytest.mark.parametrize(("begin", "end"), [(0, TUNE), (TUNE - 2, TUNE + 8)])
def test_everything_that_changes_is_in_the_state(steps, start, scheme, begin, end):
    steps.setup_chain(np.random.default_rng(1), TUNE, 30)
    point, _ = advance(steps, start, 0, begin)
    theta_step = steps.methods[0]
    before = {name: cloudpickle.dumps(value) for name, value in vars(theta_step).items()}
    advance(steps, point, begin, end)
    changed = {name for name, value in vars(theta_step).items() if cloudpickle.dumps(value) != before[name]}
    assert {"adaptations", "rng"} <= changed
    assert changed <= {field.name for field in fields(ThetaState)} | CACHES | FUNCTIONS


@every_scheme
def test_nothing_is_learned_after_tuning(steps, start, scheme):
    steps.setup_chain(np.random.default_rng(1), TUNE, 30)
    point, _ = advance(steps, start, 0, TUNE + 1)
    before = cloudpickle.dumps(steps.sampling_state.methods[0].adaptations)
    advance(steps, point, TUNE + 1, TUNE + 20)
    assert cloudpickle.dumps(steps.sampling_state.methods[0].adaptations) == before


# Without derivatives, which Numba would compile for most of the time that this file takes; see `test_pickling.py`.
@pytest.mark.parametrize("scheme", ["interweaving", "surrogate", "joint"])
@pytest.mark.parametrize("saved", [0, TUNE + 3])
def test_pickled_steps_continue_identically(probit_model, start, scheme, saved):
    """As users run them: interpreted, PyTensor lays results out in another order once a function has been pickled."""
    steps = steps_of(probit_model, scheme, interpreted=False)
    steps.setup_chain(np.random.default_rng(4), TUNE, 30)
    point, _ = advance(steps, start, 0, saved)
    twin = cloudpickle.loads(cloudpickle.dumps(steps))
    assert twin.methods[0].shared_model is twin.methods[1].shared_model
    _, expected = advance(steps, point, saved, saved + 8)
    assert_array_equal(advance(twin, point, saved, saved + 8)[1], expected)


def test_pickles_hold_no_covariance(probit_model, start):
    steps = steps_of(probit_model, "ancillary")
    chain(steps, start, seed=1)
    theta_step = cloudpickle.loads(cloudpickle.dumps(steps)).methods[0]
    assert theta_step._current is None
    assert theta_step.shared_model._prior is None


def test_a_state_of_another_model_is_refused(probit_model):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.zeros(2), cov=scale * np.eye(2))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    foreign = pmgp.steps.Ancillary(model=model, compile_kwargs=FAST)
    with pytest.raises(ValueError, match="var_names"):
        foreign.sampling_state = steps_of(probit_model, "ancillary").methods[0].sampling_state


def conjugate_model() -> pm.Model:
    rng = np.random.default_rng(0)
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", 3.0, 2.0)
        lengthscale = pm.Gamma("lengthscale", 2.0, 2.0)
        kernel = pm.gp.cov.Matern32(2, ls=lengthscale) + pm.gp.cov.WhiteNoise(1e-3)
        f = pm.gp.Latent(cov_func=variance * kernel).prior(
            "f", X=rng.normal(size=(20, 2)), reparameterize=False, jitter=0.0
        )
        pmgp.likelihoods.LogGaussianCox("y", f, observed=rng.integers(0, 5, size=20))
    return model


@pytest.mark.parametrize("kind", [pmgp.steps.Sufficient, pmgp.steps.Interweaving])
def test_a_restored_state_with_a_conjugate_variance(kind):
    """K is scaled in the one chain and made anew in the other: equal to rounding."""
    model = conjugate_model()
    steps = CompoundStep([kind(model=model, compile_kwargs=FAST), pmgp.EllipticalSlice(model=model)])
    steps.setup_chain(np.random.default_rng(1), TUNE, 30)
    point, _ = advance(steps, model.initial_point(), 0, TUNE + 5)
    state = steps.sampling_state
    _, expected = advance(steps, point, TUNE + 5, TUNE + 20)
    steps.sampling_state = state
    assert_allclose(advance(steps, point, TUNE + 5, TUNE + 20)[1], expected, rtol=1e-7)
    variances = expected[:, -2 if model.value_vars[-1].name == "f" else -1]
    assert len(np.unique(variances)) == len(variances)


# What pm.sample returns


@every_scheme
def test_sample_stats_have_the_promised_names_and_types(probit_model, steps, scheme):
    assert set(steps.methods[0].stats_dtypes_shapes) == {*STATS, "tune"}
    idata = sample(probit_model, steps, chains=2, draws=25)
    stats = idata["sample_stats"]
    for name, dtype in STATS.items():
        assert stats[name].dtype == dtype
        assert stats[name].shape[:2] == (2, 25)
    assert bool(((stats["acceptance_rate"] >= 0) & (stats["acceptance_rate"] <= 1)).all())
    assert (stats["n_evaluations"][..., 0] >= len(steps.methods[0].scheme.stages)).all()


@every_scheme
def test_an_f_that_was_moved_beside_it_is_taken_up(steps, start, scheme):
    """What is kept at a theta that has not moved is the prior, and not f."""
    step = steps.methods[0]
    step.setup_chain(np.random.default_rng(1), 0, 10)
    point, _ = step.step(start)
    f = point["f"] + 0.1
    assert step._synchronized(point | {"f": f}).latent.f is f


@pytest.mark.parametrize("scheme", ["sufficient", "interweaving", "surrogate", "joint"])
def test_accepted_means_that_theta_moved(steps, start, scheme):
    """A refused proposal leaves the very same f, so that steps for f start from what they know."""
    step = steps.methods[0]
    step.setup_chain(np.random.default_rng(1), 60, 40)
    point, accepted = advance(step, start, 0, 60, 60)[0], []
    for _ in range(40):
        after, (stats,) = step.step(point)
        moved = after["lengthscale_log__"] != point["lengthscale_log__"]
        assert moved == (stats["accepted"] > 0)
        if not moved or "sufficient" in scheme:
            assert_array_equal(after["f"], point["f"])
        elif "interweaving" not in scheme:
            assert not np.array_equal(after["f"], point["f"])
        assert after.keys() == point.keys()
        accepted.append(stats["accepted"])
        point = after
    assert 0.0 < np.mean(accepted) < 1.0


def test_without_tuning(probit_model):
    idata = sample(probit_model, steps_of(probit_model, "interweaving"), tune=0, chains=2)
    assert np.isfinite(idata["posterior"]["f"]).all()


def test_it_starts_where_it_is_told_to(probit_model, start):
    step = steps_of(probit_model, "ancillary").methods[0]
    step.setup_chain(np.random.default_rng(0), 10, 10)
    at = start | {"lengthscale_log__": np.array(1.5), "variance_log__": np.array(-2.0)}
    for _ in range(10):
        point, (stats,) = step.step(at)
        if not stats["accepted"]:
            assert point["lengthscale_log__"] == 1.5
            return
    pytest.fail("every proposal was accepted")


@every_class
def test_data_replaced_between_runs(binary_data, kind):
    X, y = binary_data
    with pm.Model() as model:
        data_X, data_y = pm.Data("X", X), pm.Data("labels", y)
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=4.0 * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        f = gp.prior("f", X=data_X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=data_y)
    settings = {"model": model, "compile_kwargs": FAST}
    steps = CompoundStep([kind(**settings), pmgp.EllipticalSlice(**settings)])
    sample(model, steps)
    with model:
        pm.set_data({"X": X[:13], "labels": 1 - y[:13]})
    after = sample(model, steps)["posterior"]
    assert after["f"].shape == (1, 12, 13)
    with pm.Model() as small:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        gp = pm.gp.Latent(cov_func=4.0 * pm.gp.cov.ExpQuad(2, ls=lengthscale))
        f = gp.prior("f", X=X[:13], reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=1 - y[:13])
    settings["model"] = small
    fresh = CompoundStep([kind(**settings), pmgp.EllipticalSlice(**settings)])
    assert_allclose(after["f"], sample(small, fresh)["posterior"]["f"], rtol=1e-7)


def test_the_progress_bar_shows_acceptance(probit_model, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    steps = steps_of(probit_model, "interweaving")
    sample(probit_model, steps, progressbar=True, quiet=False)
    columns, stats = steps.methods[0]._progressbar_config(3)
    assert len(columns) == len(stats) == 1
    (update,) = steps.methods[0]._make_progressbar_update_functions()
    assert update({"acceptance_rate": 0.5}) == {"theta_acceptance": 0.5}


# Together with other step methods


# Every step for f once, and every kind of scheme, two of them with derivatives.
BESIDE = ("ancillary-hmc", "sufficient-smmala", "interweaving", "surrogate", "joint", "sufficient")


@pytest.mark.parametrize(("scheme", "latent"), list(zip(BESIDE, LATENT, strict=True)))
def test_it_combines_with_every_step_for_f(probit_model, start, scheme, latent):
    steps = steps_of(probit_model, scheme, latent)
    path = chain(steps, start, seed=3, length=25, tune=15)
    assert np.isfinite(path).all()
    assert (np.diff(path, axis=0) != 0.0).any(axis=0)[:22].all()


@pytest.mark.parametrize("order", [1, -1])
def test_the_order_of_the_steps_is_free(probit_model, start, order):
    steps = CompoundStep(steps_of(probit_model, "surrogate").methods[::order])
    assert np.isfinite(chain(steps, start, seed=3)).all()


def test_two_schemes_in_one_iteration(probit_model, start):
    """Each meets a theta that another one has moved."""
    first, latent = steps_of(probit_model, "joint").methods
    second = steps_of(probit_model, "sufficient").methods[0]
    path = chain(CompoundStep([first, latent, second]), start, seed=3)
    assert np.isfinite(path).all()
    assert np.unique(path[:, 20]).size > 5


def test_beside_a_step_of_pymc(probit_model):
    with probit_model:
        other = pm.Slice([probit_model["lengthscale"]], compile_kwargs=FAST)
    idata = sample(probit_model, [*steps_of(probit_model, "ancillary").methods, other], tune=5, draws=8)
    assert np.unique(idata["posterior"]["lengthscale"]).size == 8


def test_it_is_never_chosen_by_itself(probit_model):
    variable = probit_model["lengthscale"]
    for kind in CLASSES:
        assert kind._competence([variable], [True])[0] == 0


# Refusals


@every_class
@pytest.mark.parametrize("rate", [0.0, 1.5, np.nan])
def test_an_acceptance_rate_out_of_range_is_named(probit_model, kind, rate):
    with pytest.raises(ValueError, match=f"target_acceptance must lie between 0 and 1, not {rate}"):
        kind(model=probit_model, target_acceptance=rate, compile_kwargs=FAST)


BAD_SETTINGS = [
    (
        pmgp.steps.Ancillary,
        {"operator": "nuts"},
        "unknown operator 'nuts'; known are hmc, hmc-identity, metropolis, mixture, rmhmc, smmala",
    ),
    (pmgp.steps.Sufficient, {"operator": 3}, "operator must be one of .* not 3, which has no start and no step"),
    (pmgp.steps.Interweaving, {"max_leapfrog": 0}, "max_leapfrog must be an integer of at least 1, not 0"),
    (pmgp.steps.JointUpdate, {"approximation": "magic"}, "unknown approximation 'magic'"),
    (pmgp.steps.JointUpdate, {"approximation": 3}, "approximation must be one of .* not 3"),
]


@pytest.mark.parametrize(("kind", "settings", "message"), BAD_SETTINGS)
def test_settings_out_of_range_are_named(probit_model, kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(model=probit_model, compile_kwargs=FAST, **settings)


@every_class
def test_some_hyperparameters_only_are_refused(probit_model, kind):
    message = f"{kind.__name__} updates all hyper-parameters together .* missing: variance_log__, not its own: none"
    with pytest.raises(ModelError, match=message):
        kind([probit_model["lengthscale"]], model=probit_model, compile_kwargs=FAST)
    with pytest.raises(ModelError, match="not its own: f;"):
        kind([probit_model[name] for name in VARIABLES], model=probit_model, compile_kwargs=FAST)


@every_class
def test_all_hyperparameters_may_be_given_in_any_order(probit_model, kind):
    given = kind([probit_model["variance"], probit_model["lengthscale"]], model=probit_model, compile_kwargs=FAST)
    assert [value.name for value in given.vars] == ["lengthscale_log__", "variance_log__"]


@every_class
def test_a_model_without_hyperparameters_is_refused(kind):
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(2), cov=np.eye(2))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    with pytest.raises(ModelError, match=r"no hyper-parameters besides 'f', .* pmgp\.EllipticalSlice\(\) alone"):
        kind(model=model, compile_kwargs=FAST)


@every_class
def test_a_whitened_process_is_refused(kind, binary_data):
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=binary_data[0]), observed=binary_data[1])
    with pytest.raises(ModelError, match=r"gp.prior\(..., reparameterize=False\)"):
        kind(model=model, compile_kwargs=FAST)


@cache
def mixing_model() -> pm.Model:
    """Each observation depends on two latent values."""
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.zeros(3), cov=scale * (np.eye(3) + 0.2))
        pm.Poisson("y", pt.exp(f + 0.5 * f[::-1]), observed=[0, 1, 2])
    return model


@pytest.mark.parametrize("scheme", ["surrogate", "joint", "ancillary-smmala", "sufficient-smmala"])
def test_a_likelihood_that_does_not_factorize_is_refused(scheme):
    with pytest.raises(ModelError, match="does not factorize over 'f'"):
        SCHEMES[scheme](model=mixing_model(), compile_kwargs=FAST)


@pytest.mark.parametrize("scheme", ["ancillary", "ancillary-hmc", "sufficient", "sufficient-hmc", "interweaving"])
def test_a_likelihood_that_does_not_factorize_will_do_otherwise(scheme):
    model = mixing_model()
    settings = {"model": model, "compile_kwargs": FAST}
    steps = CompoundStep([SCHEMES[scheme](**settings), pmgp.EllipticalSlice(**settings)])
    assert np.unique(chain(steps, model.initial_point(), seed=0)[:, -2]).size > 3


@cache
def correlated_pair(spread: float = 1.5) -> pm.Model:
    """Two latent values with covariance r, indefinite where |r| > 1."""
    with pm.Model() as model:
        r = pm.Normal("r", 0, spread)
        f = pm.MvNormal("f", np.zeros(2), cov=pt.stack([pt.stack([1.0, r]), pt.stack([r, 1.0])]))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    return model


def alone(kind, model, tune: int = 0, seed: int = 0, **settings):
    step = kind(model=model, compile_kwargs=FAST, **settings)
    step.setup_chain(np.random.default_rng(seed), tune, 60)
    return step


@every_class
def test_an_indefinite_covariance_is_refused_at_the_start(kind):
    model = correlated_pair()
    point = model.initial_point() | {"r": np.array(1.3)}
    with pytest.raises(
        SamplingError,
        match=r"not positive definite: its eigenvalues range from -0\.3 .*r=1\.3, on the unconstrained scale",
    ):
        alone(kind, model).step(point)


@every_scheme
def test_an_indefinite_proposal_is_rejected(scheme):
    model = correlated_pair(spread=1.0)
    step = alone(SCHEMES[scheme], model)
    point, correlations = model.initial_point(), []
    for _ in range(80):
        point, _ = step.step(point)
        correlations.append(float(point["r"]))
    assert np.abs(correlations).max() < 1.001
    assert np.unique(correlations).size > 5


@every_class
def test_nan_in_the_inputs_is_refused_by_the_constructor(binary_data, kind):
    X, y = binary_data
    X = X.copy()
    X[4, 1] = np.nan
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2, 1)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=X, reparameterize=False), observed=y)
    with pytest.raises(ModelError, match=r"inputs X of 'f', of shape \(20, 2\), .*not finite in row 4"):
        alone(kind, model)


@every_class
def test_a_start_outside_the_prior_is_refused(kind):
    with pm.Model() as model:
        level = pm.Normal("level")
        pm.Potential("limit", pt.switch(level > 5.0, -np.inf, 0.0))
        f = pm.MvNormal("f", pt.zeros(2) + level, cov=np.eye(2))
        pmgp.BernoulliProbit("y", f, observed=[0, 1])
    point = model.initial_point() | {"level": np.array(7.0)}
    with pytest.raises(SamplingError, match=r"prior density .* not finite there.* \(level=7\.0"):
        alone(kind, model).step(point)


@every_class
def test_an_impossible_start_of_f_is_refused(kind):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        f = pm.MvNormal("f", np.zeros(2), cov=scale * np.eye(2))
        pm.Potential("limit", pt.switch(f > 5.0, -np.inf, 0.0))
        pm.Normal("y", f, 1.0, observed=[0.0, 1.0])
    point = model.initial_point() | {"f": np.array([7.0, 0.0])}
    with pytest.raises(SamplingError, match=r"log-likelihood of 'limit' is -inf in row 0 .*scale_log__="):
        alone(kind, model).step(point)
