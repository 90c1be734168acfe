"""The transitions of f as PyMC step methods: states, chains, models they accept, what they refuse, exact answers."""

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
from numpy.testing import assert_array_equal
from pymc.exceptions import SamplingError

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import ModelError
from pmgp.interface.steps.latent_updates import LatentState
from pmgp.interface.steps.shared import SharedModel
from tests.truths import standard_errors_from

FAST = {"mode": INTERPRETED}
TUNE = 30
CACHES = {"_target", "_point", "shared_model"}
METHODS: dict[str, Callable[..., Any]] = {
    "slice": pmgp.EllipticalSlice,
    "slice-laplace": lambda **kw: pmgp.EllipticalSlice(reference="laplace", moves=2, **kw),
    "metropolis isotropic": lambda **kw: pmgp.steps.LatentMetropolis(proposal="isotropic", **kw),
    "metropolis v1": lambda **kw: pmgp.steps.LatentMetropolis(proposal="random_walk", **kw),
    "metropolis v2": pmgp.steps.LatentMetropolis,
    "hmc isotropic": lambda **kw: pmgp.steps.LatentHMC(mass="identity", **kw),
    "hmc v1": pmgp.steps.LatentHMC,
    "hmc v2": lambda **kw: pmgp.steps.LatentHMC(mass="prior", max_leapfrog=4, **kw),
    "smmala": pmgp.steps.LatentSMMALA,
    "rmhmc": lambda **kw: pmgp.steps.LatentRMHMC(max_leapfrog=3, **kw),
    "rmhmc local": lambda **kw: pmgp.steps.LatentRMHMC(metric="local", max_leapfrog=3, **kw),
}
CLASSES = (
    pmgp.EllipticalSlice,
    pmgp.steps.LatentMetropolis,
    pmgp.steps.LatentHMC,
    pmgp.steps.LatentRMHMC,
    pmgp.steps.LatentSMMALA,
)
COUNTS = {"n_cholesky", "n_inverse", "n_matmul", "n_evaluations"}
every_method = pytest.mark.parametrize("method", METHODS)
# One of each class, as options are the core's concern.
every_class = pytest.mark.parametrize("method", ["slice-laplace", "metropolis v1", "hmc v2", "smmala", "rmhmc"])
X = np.linspace(0.0, 4.0, 12)[:, None]
COUNTS_SEEN = np.random.default_rng(5).poisson(2.0, size=12)


@cache
def known_theta() -> pm.Model:
    """Counts with a prior that has no hyper-parameters and a mean that is not zero."""
    with pm.Model() as model:
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(0.5), cov_func=0.8 * pm.gp.cov.Matern52(1, ls=1.0))
        f = gp.prior("f", X=X, reparameterize=False)
        pmgp.likelihoods.LogGaussianCox("y", f, observed=COUNTS_SEEN)
    return model


@cache
def step_of(method: str, copy: int = 0):
    return METHODS[method](model=known_theta(), compile_kwargs=FAST)


def advance(step, point, begin: int, end: int):
    path = []
    for iteration in range(begin, end):
        if iteration == TUNE:
            step.stop_tuning()
        point, [stats] = step.step(point)
        path.append(np.append(point["f"], stats["n_evaluations"]))
    return point, np.array(path)


def started(method: str, seed: int = 1, copy: int = 0):
    step = step_of(method, copy)
    step.setup_chain(np.random.default_rng(seed), TUNE, 30)
    return step, known_theta().initial_point()


def sample(model, step, **settings):
    settings = {"draws": 15, "tune": 15, "chains": 2, "cores": 1, "random_seed": 7} | settings
    quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return pm.sample(step=step, **quiet | settings)


# State


@every_class
@pytest.mark.parametrize("saved", [1, TUNE - 1, TUNE, TUNE + 5])
def test_a_restored_state_repeats_the_next_draws(method, saved):
    step, start = started(method)
    point, _ = advance(step, start, 0, saved)
    state = step.sampling_state
    _, expected = advance(step, point, saved, saved + 8)
    other, _ = started(method, seed=3, copy=1)
    for restored in (step, other):
        restored.sampling_state = state
        assert_array_equal(advance(restored, point, saved, saved + 8)[1], expected)


@every_method
def test_a_chain_does_not_depend_on_the_one_before(method):
    step, start = started(method, seed=1)
    advance(step, start, 0, TUNE + 9)
    step, _ = started(method, seed=2)
    again = advance(step, start, 0, TUNE + 5)[1]
    fresh, _ = started(method, seed=2, copy=1)
    assert_array_equal(again, advance(fresh, start, 0, TUNE + 5)[1])


@every_method
def test_everything_that_changes_is_in_the_state(method):
    step, start = started(method)
    point, _ = advance(step, start, 0, 3)
    before = {name: cloudpickle.dumps(value) for name, value in vars(step).items()}
    advance(step, point, 3, TUNE + 5)
    changed = {name for name, value in vars(step).items() if cloudpickle.dumps(value) != before[name]}
    assert {"chain", "rng"} <= changed
    assert changed <= {field.name for field in fields(LatentState)} | CACHES


@every_method
def test_the_state_is_small_and_keeps_what_it_holds(method):
    """The n x n factors are computed again, and the step goes on as if the state had not been read."""
    step, start = started(method)
    point, _ = advance(step, start, 0, TUNE + 2)
    state = step.sampling_state
    assert all(np.size(value) <= 12 for value in (state.chain.gradient, state.chain.metric_factor))
    before = cloudpickle.dumps(state)
    undisturbed, _ = started(method, copy=1)
    expected = advance(undisturbed, start, 0, TUNE + 8)[1][TUNE + 2 :]
    assert_array_equal(advance(step, point, TUNE + 2, TUNE + 8)[1], expected)
    assert cloudpickle.dumps(state) == before


@every_class
def test_step_sizes_are_frozen_after_tuning(method):
    step, start = started(method)
    point, _ = advance(step, start, 0, TUNE + 1)
    learned = step.sampling_state.step_size
    advance(step, point, TUNE + 1, TUNE + 20)
    assert step.sampling_state.step_size == learned


@pytest.mark.parametrize("method", ["metropolis v2", "hmc v1", "smmala"])
def test_after_tuning_the_average_of_the_steps_is_used(method):
    """And not the last one, which a few lucky proposals may have made long."""
    step, point = started(method)
    point, _ = advance(step, point, 0, TUNE)
    assert step.step_size.value != step.step_size.frozen
    step.stop_tuning()
    _, [stats] = step.step(point)
    assert stats["step_size"] == step.step_size.frozen


@every_method
def test_pickled_steps_continue_identically(method):
    step, start = started(method)
    point, _ = advance(step, start, 0, TUNE + 3)
    twin = cloudpickle.loads(cloudpickle.dumps(step))
    assert twin._target is None
    _, expected = advance(step, point, TUNE + 3, TUNE + 9)
    assert_array_equal(advance(twin, point, TUNE + 3, TUNE + 9)[1], expected)


@every_class
def test_the_given_point_is_left_alone(method):
    step, start = started(method)
    points = [start]
    copies = [start["f"].copy()]
    for _ in range(10):
        points.append(step.step(points[-1])[0])
        copies.append(points[-1]["f"].copy())
    assert_array_equal([point["f"] for point in points], copies)
    assert points[0] is not points[1]


# pm.sample


@every_class
def test_sample_stats(method):
    idata = sample(known_theta(), step_of(method))
    names = set(idata["sample_stats"].data_vars)
    assert names >= COUNTS
    tuned = {"accepted", "acceptance_rate", "step_size"}
    assert tuned <= names or (method.startswith("slice") and not tuned & names)
    assert np.isfinite(idata["posterior"]["f"]).all()
    assert not np.array_equal(idata["posterior"]["f"][0], idata["posterior"]["f"][1])


@pytest.mark.parametrize("method", ["slice", "hmc isotropic"])
def test_same_seed_same_trace(method):
    first, second = (sample(known_theta(), step_of(method))["posterior"]["f"] for _ in range(2))
    assert_array_equal(first, second)
    assert not np.array_equal(first, sample(known_theta(), step_of(method), random_seed=8)["posterior"]["f"])


@pytest.mark.parametrize("method", ["slice-laplace", "smmala"])
def test_parallel_chains_equal_sequential_ones(method):
    sequential = sample(known_theta(), step_of(method))["posterior"]["f"]
    parallel = sample(known_theta(), step_of(method), cores=2, mp_ctx="fork")["posterior"]["f"]
    assert_array_equal(sequential, parallel)


def test_never_chosen_by_pymc():
    for kind in CLASSES:
        assert kind.competence(known_theta().value_vars[0], True) == 0


# Models they accept


def test_the_variable_can_be_given_in_every_way():
    model = known_theta()
    for settings in ({"vars": [model["f"]]}, {"vars": model["f"]}, {"latent": "f"}, {"latent": model["f"]}):
        step = pmgp.EllipticalSlice(model=model, compile_kwargs=FAST, **settings)
        assert [value.name for value in step.vars] == ["f"]


@cache
def two_processes() -> pm.Model:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        f = pm.MvNormal("f", mu=np.zeros(4), cov=np.eye(4) + 0.5)
        g = pm.MvNormal("g", mu=np.ones(4), cov=scale * np.eye(4))
        pm.Poisson("y", pt.exp(f + 0.1 * g), observed=[1, 0, 3, 2])
    return model


def test_two_processes_each_with_its_own_step():
    model = two_processes()
    settings = {"model": model, "compile_kwargs": FAST}
    steps = [
        pmgp.EllipticalSlice([model["f"]], **settings),
        pmgp.steps.LatentHMC([model["g"]], **settings),
        pm.Metropolis([model["scale"]], **settings),
    ]
    posterior = sample(model, steps)["posterior"]
    for name in ("f", "g"):
        assert len(np.unique(posterior[name][0, :, 0])) > 5


@pytest.mark.parametrize("kind", [pmgp.EllipticalSlice, pmgp.steps.LatentMetropolis])
def test_a_likelihood_that_does_not_factorize(kind):
    with pm.Model() as model:
        f = pm.MvNormal("f", mu=np.zeros(3), cov=np.eye(3))
        pm.Normal("y", f[1:] * f[:-1], 1.0, observed=[0.3, -0.2])
    assert np.isfinite(sample(model, kind(model=model, compile_kwargs=FAST))["posterior"]["f"]).all()


def test_free_variables_below_f():
    """A process at new inputs is a child of f; it is part of what f is conditioned on."""
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0))
        f = gp.prior("f", X=X, reparameterize=False)
        gp.conditional("g", Xnew=X[:2] + 0.1)
        pm.Poisson("y", pt.exp(f), observed=COUNTS_SEEN)
    settings = {"model": model, "compile_kwargs": FAST}
    steps = [pmgp.EllipticalSlice([model["f"]], **settings), pm.Metropolis([model["g"]], **settings)]
    assert np.isfinite(sample(model, steps)["posterior"]["f"]).all()


# What they refuse


@pytest.mark.parametrize("kind", CLASSES)
def test_errors_of_construction(kind):
    with pm.Model() as whitened:
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0)).prior("f", X=X)
        pm.Normal("y", f, 1.0, observed=np.zeros(12))
    with pytest.raises(ModelError, match="reparameterize=False"):
        kind(model=whitened)
    with pytest.raises(ModelError, match="'scale' is not a free multivariate normal"):
        kind([two_processes()["scale"]], model=two_processes())


@pytest.mark.parametrize(
    "make",
    [
        pmgp.steps.LatentSMMALA,
        pmgp.steps.LatentHMC,
        pmgp.steps.LatentRMHMC,
        lambda **kw: pmgp.EllipticalSlice(reference="laplace", **kw),
    ],
)
def test_methods_that_need_a_factorizing_likelihood_say_so(make):
    with pm.Model() as model:
        f = pm.MvNormal("f", mu=np.zeros(3), cov=np.eye(3))
        pm.Normal("y", f[1:] * f[:-1], 1.0, observed=[0.3, -0.2])
    with pytest.raises(ModelError, match="does not factorize"):
        make(model=model, compile_kwargs=FAST)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: pmgp.EllipticalSlice(moves=0, model=m), "moves must be an integer of at least 1, not 0"),
        (lambda m: pmgp.EllipticalSlice(reference="ep", model=m), "reference must be one of prior, laplace, not 'ep'"),
        (
            lambda m: pmgp.steps.LatentHMC(max_leapfrog=0, model=m),
            "max_leapfrog must be an integer of at least 1, not 0",
        ),
        (
            lambda m: pmgp.steps.LatentHMC(mass="v3", model=m),
            "mass must be one of posterior, prior, identity, not 'v3'",
        ),
        (
            lambda m: pmgp.steps.LatentMetropolis(proposal="", model=m),
            "must be one of autoregressive, random_walk, isotropic, not ''",
        ),
        (lambda m: pmgp.steps.LatentRMHMC(metric="", model=m), "metric must be one of identity, fixed, local, not ''"),
        (lambda m: pmgp.steps.LatentSMMALA(target_acceptance=1.0, model=m), "between 0 and 1, not 1.0"),
    ],
)
def test_settings_out_of_range(make, message):
    with pytest.raises(ValueError, match=message):
        make(known_theta())


@every_class
def test_a_covariance_that_is_not_one(method):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", initval=1.5)
        f = pm.MvNormal("f", mu=np.zeros(2), cov=pt.stack([[1.0, scale], [scale, 1.0]]))
        pmgp.likelihoods.LogGaussianCox("y", f, observed=[0, 2])
    step = METHODS[method](model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 5, 5)
    with pytest.raises(SamplingError, match=r"cannot update 'f'.*scale_log__=0\.40"):
        step.step(model.initial_point())


@pytest.mark.parametrize("method", ["slice", "metropolis isotropic", "metropolis v1", "metropolis v2"])
def test_an_impossible_start(method):
    with pm.Model() as model:
        f = pm.MvNormal("f", mu=np.zeros(2), cov=np.eye(2))
        pm.Uniform("y", lower=f, upper=f + 1.0, observed=[0.5, 0.5])
    step = METHODS[method](model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 5, 5)
    with pytest.raises(SamplingError, match=r"log-likelihood of 'y' is -inf for .* rows 0, 1 \(0.5, 0.5\)"):
        step.step({"f": np.full(2, 9.0)})


# Beside a step method for theta


@cache
def moving_theta() -> pm.Model:
    with pm.Model() as model:
        scale = pm.Gamma("scale", 2.0, 2.0)
        f = pm.MvNormal("f", mu=np.full(3, 0.4), cov=scale * (np.eye(3) + 0.7))
        pmgp.likelihoods.LogGaussianCox("y", f, observed=[0, 2, 5])
    return model


@pytest.mark.parametrize("method", [method for method in METHODS if method != "rmhmc local"])
def test_one_factorization_a_theta(method):
    """Theta that has moved costs its factorization; theta that has not costs none."""
    model = moving_theta()
    step = METHODS[method](model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 50, 50)
    point, _ = step.step(model.initial_point())
    for _ in range(3):
        point, [stats] = step.step(point)
        assert stats["n_cholesky"] == (1 if method == "smmala" else 0)
    moved = step.step(point | {"scale_log__": np.array(0.3)})[1][0]
    expected = {"hmc v1": 2, "rmhmc": 2, "smmala": 3}.get(method, 1)
    assert moved["n_cholesky"] == expected or (method == "slice-laplace" and moved["n_cholesky"] > 1)
    assert moved["n_inverse"] == (1 if method in ("hmc v1", "smmala") else 0)
    assert moved["n_matmul"] == 0


@cache
def truth() -> np.ndarray:
    """E[log scale], E[f], E[f^2] of `moving_theta` by importance sampling from the prior."""
    rng = np.random.default_rng(0)
    n = 2_000_000
    scale = rng.gamma(2.0, 0.5, size=n)
    factor = np.linalg.cholesky(np.eye(3) + 0.7)
    f = 0.4 + np.sqrt(scale)[:, None] * (rng.standard_normal((n, 3)) @ factor.T)
    y = np.array([0, 2, 5])
    log_weights = (y * f - np.exp(f)).sum(axis=1)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return np.array([weights @ np.log(scale), *(weights @ f), *(weights @ f**2)])


@pytest.mark.parametrize("method", ["hmc v2", "smmala"])
def test_posterior_beside_a_slice_sampler_for_theta(method):
    model = moving_theta()
    steps = [METHODS[method](model=model), pm.Slice([model["scale"]], model=model)]
    posterior = sample(model, steps, draws=4_000, tune=500, chains=2)["posterior"]
    f, scale = posterior["f"].to_numpy(), np.log(posterior["scale"].to_numpy())
    drawn = np.concatenate([scale[..., None], f, f**2], axis=2).reshape(8_000, -1)
    batches = drawn.reshape(80, 100, -1).mean(axis=1)
    assert max(standard_errors_from(b, t) for b, t in zip(batches.T, truth(), strict=True)) < 4.0


def test_posterior_with_a_prior_that_is_not_updated_is_rejected(monkeypatch):
    """The broken twin keeps the factor of the first theta."""
    right = SharedModel.prior
    first: list[Any] = []

    def stale(self, theta):
        first.append(right(self, theta))
        return first[0]

    monkeypatch.setattr(SharedModel, "prior", stale)
    with pytest.raises(AssertionError):
        test_posterior_beside_a_slice_sampler_for_theta("hmc v2")


def test_the_advice_for_a_model_without_hyperparameters_works():
    with pytest.raises(ModelError, match=r"no hyper-parameters besides 'f'.*step=pmgp\.EllipticalSlice\(\)"):
        pmgp.PseudoMarginal(model=known_theta())
    with known_theta():
        idata = pm.sample(5, tune=5, chains=1, step=pmgp.EllipticalSlice(), progressbar=False, quiet=True)
    assert idata["posterior"]["f"].shape == (1, 5, 12)
