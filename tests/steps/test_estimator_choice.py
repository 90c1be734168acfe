"""The step method that chooses its estimator: what it says of it, and that chains, states and stored runs keep it."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_array_equal

import pmgp
from pmgp.core.estimators import ImportanceSampling, OrthantSampling, SequentialSampling
from tests.sampling.runs import QUIET, assert_same_run, kill_at, killed, resumed
from tests.steps.test_contract import FAST, advance
from tests.steps.test_contract import sample as sampled

TUNE = 40


def strong_model() -> pm.Model:
    """Sixty labels of a process in ten dimensions with a large variance: importance weights vary."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 10))
    covariance = 1e4 * np.exp(-np.square(X[:, None] - X).sum(axis=-1) / 18.0)
    f = np.linalg.cholesky(covariance + 1e-3 * np.eye(60)) @ rng.normal(size=60)
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", np.log(3.0), 0.3)
        prior = pm.gp.Latent(cov_func=1e4 * pm.gp.cov.ExpQuad(10, ls=lengthscale))
        latent = prior.prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", latent, observed=(f + rng.normal(size=60) > 0).astype(int))
    return model


def classes_model() -> pm.Model:
    """Twenty labels of four classes of such processes: one importance sample has nearly all the weight."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 10))
    covariance = 1e3 * np.exp(-np.square(X[:, None] - X).sum(axis=-1) / 18.0)
    f = np.linalg.cholesky(covariance + 1e-3 * np.eye(20)) @ rng.normal(size=(20, 4))
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", np.log(3.0), 0.3)
        prior = pm.gp.Latent(cov_func=1e3 * pm.gp.cov.ExpQuad(10, ls=lengthscale))
        latent = prior.prior("f", X=X, n_outputs=4, reparameterize=False)
        pmgp.MultinomialLogit("y", latent.T, observed=np.argmax(f + rng.gumbel(size=f.shape), axis=1))
    return model


@pytest.fixture(scope="module")
def model():
    return strong_model()


@pytest.fixture(scope="module")
def several():
    return classes_model()


@pytest.fixture(scope="module")
def step_of_several(several):
    return pmgp.PseudoMarginal(model=several, compile_kwargs=FAST)


@pytest.fixture(scope="module")
def step(model):
    return pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)


@pytest.fixture(scope="module")
def other_step(model):
    return pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)


def sample(model, step, **settings):
    return sampled(model, step, **{"tune": TUNE, "draws": 15} | settings)


def assert_same(one, other):
    for name in ("lengthscale", "f"):
        assert_array_equal(one["posterior"][name], other["posterior"][name])


def test_orthants_are_chosen_where_labels_say_much_and_the_statistics_say_so(model, step):
    stats = sample(model, step, discard_tuned_samples=False)
    assert bool(stats["sample_stats"]["orthants"].all())
    assert not bool(stats["warmup_sample_stats"]["orthants"].any())
    assert bool((stats["sample_stats"]["importance_draws"] == 16).all())
    assert isinstance(step.frozen.estimator, OrthantSampling)


def test_sequential_estimates_are_chosen_for_classes_that_no_gaussian_is_near(several, step_of_several):
    stats = sample(several, step_of_several, discard_tuned_samples=False)
    assert bool(stats["sample_stats"]["sequential"].all())
    assert not bool(stats["warmup_sample_stats"]["sequential"].any())
    assert not bool(stats["sample_stats"]["orthants"].any())
    frozen = step_of_several.frozen
    assert isinstance(frozen.estimator, SequentialSampling)
    assert bool((stats["sample_stats"]["importance_draws"] == frozen.draws).all())
    assert bool((stats["sample_stats"]["n_matmul"] > 0).any())


def test_sequential_chains_side_by_side_are_chains_in_sequence(several, step_of_several):
    settings = {"chains": 2, "draws": 5}
    one = sample(several, step_of_several, **settings)
    assert_same(one, sample(several, step_of_several, cores=2, **settings))


@pytest.mark.parametrize("saved", [TUNE - 1, TUNE + 3])
def test_a_restored_state_goes_on_with_sequential_estimates(several, step_of_several, saved):
    step = step_of_several
    step.setup_chain(np.random.default_rng(1), TUNE, 30)
    point, _ = advance(step, several.initial_point(), 0, saved, TUNE)
    state, twin = step.sampling_state, cloudpickle.loads(cloudpickle.dumps(step))
    _, expected = advance(step, point, saved, saved + 12, TUNE)
    assert isinstance(step.frozen.estimator, SequentialSampling)
    step.sampling_state = state
    for one in (twin, step):
        assert_array_equal(advance(one, point, saved, saved + 12, TUNE)[1], expected)


def test_importance_sampling_draws_what_it_draws_without_a_choice(probit_model):
    chosen = sampled(probit_model, pmgp.PseudoMarginal(model=probit_model, compile_kwargs=FAST), tune=TUNE)
    given = pmgp.PseudoMarginal(model=probit_model, estimator="importance", compile_kwargs=FAST)
    fixed = sampled(probit_model, given, tune=TUNE)
    assert not bool(chosen["sample_stats"]["orthants"].any())
    for name in ("lengthscale", "variance", "f"):
        assert_array_equal(chosen["posterior"][name], fixed["posterior"][name])


def test_other_likelihoods_have_importance_sampling_alone(binary_data):
    X, y = binary_data
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        f = pm.gp.Latent(cov_func=4.0 * pm.gp.cov.ExpQuad(2, ls=lengthscale)).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliLogit("y", f, observed=y)
    step = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    assert (step.scheme.estimator, step._others) == (ImportanceSampling(), ())


def test_chains_side_by_side_choose_as_chains_in_sequence(model, step):
    assert_same(sample(model, step, chains=2), sample(model, step, chains=2, cores=2))


@pytest.mark.parametrize("saved", [TUNE - 1, TUNE + 3])
def test_a_restored_state_and_a_pickled_step_keep_the_choice(model, step, other_step, saved):
    step.setup_chain(np.random.default_rng(1), TUNE, 30)
    point, _ = advance(step, model.initial_point(), 0, saved, TUNE)
    state, twin = step.sampling_state, cloudpickle.loads(cloudpickle.dumps(step))
    _, expected = advance(step, point, saved, saved + 12, TUNE)
    assert isinstance(step.frozen.estimator, OrthantSampling)
    other_step.sampling_state = state
    for one in (twin, other_step):
        assert_array_equal(advance(one, point, saved, saved + 12, TUNE)[1], expected)


STORED = {"draws": 20, "tune": TUNE, "chains": 1, "cores": 1, "random_seed": 4, **QUIET}


@pytest.fixture(scope="module")
def uninterrupted():
    """Runs by the name of their step method, each made once."""
    runs = {}

    def of(name, model, step):
        if name not in runs:
            runs[name] = pmgp.sample(model, step=step, **STORED)
        return runs[name]

    return of


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("iteration", [TUNE - 10, TUNE + 8])
@pytest.mark.parametrize(
    ("fixtures", "statistic"), [(("model", "step"), "orthants"), (("several", "step_of_several"), "sequential")]
)
def test_a_resumed_run_has_the_draws_of_one_that_was_not_interrupted(
    request, uninterrupted, tmp_path, monkeypatch, iteration, fixtures, statistic
):
    """Killed before and after the choice is made."""
    model, step = (request.getfixturevalue(name) for name in fixtures)
    monkeypatch.setattr("pmgp.interface.sampling.blocks.os.fsync", lambda descriptor: None)
    whole = uninterrupted(fixtures[1], model, step)
    run = {"out": tmp_path, "callback": kill_at(iteration, 0), "flush_every": 0.0, "step": step, **STORED}
    killed(lambda: pmgp.sample(model, **run))
    again = resumed(tmp_path, model, step=step)
    assert bool(again["sample_stats"][statistic].all())
    assert_same_run(whole, again)
