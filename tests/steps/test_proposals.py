"""How theta moves in the pseudo-marginal step: what is chosen, gradients of whole models, and PyMC's contract."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo
from pmgp.core.transitions.alternation import Alternation
from pmgp.core.transitions.mixture import IndependenceMixture
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST, advance
from tests.test_maximum import ard_model, noisy_model

TUNE = 60


def wide_model(seed: int = 0, n: int = 40, d: int = 6) -> pm.Model:
    """Seven hyper-parameters, of which two length-scales matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    labels = (np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.5 * rng.normal(size=n) > 0).astype(int)
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1, shape=d)
        variance = pm.Gamma("variance", 2, 0.5)
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(d, ls=lengthscale)).prior("f", X=X, reparameterize=False)
        pmgp.BernoulliProbit("y", f, observed=labels)
    return model


@pytest.fixture(scope="module")
def wide() -> pm.Model:
    return wide_model()


@pytest.fixture(scope="module")
def step(wide):
    return pmgp.PseudoMarginal(model=wide, compile_kwargs=FAST)


# What is chosen


def test_many_hyperparameters_move_by_proposals_and_trajectories(step):
    trajectories = HamiltonianMonteCarlo(0.8, max_leapfrog=5, min_leapfrog=3)
    assert step.scheme.transition == Alternation(IndependenceMixture(), trajectories)


def weighted_model() -> pm.Model:
    """Three classes from three sources, and a weight for each of both."""
    rng = np.random.default_rng(3)
    sources = pmgp.gp.Sources({name: rng.normal(size=(12, 2)) for name in ("shape", "texture", "color")})
    with pm.Model() as model:
        weights = pm.Gamma("weights", 2, 2, shape=(3, 3))
        f = []
        for c in range(3):
            gp = pm.gp.Latent(cov_func=pmgp.gp.KernelSum(sources.kernels(), weights[c]))
            f.append(gp.prior(f"f{c}", X=sources.X, reparameterize=False))
        pmgp.MultinomialLogit("y", f, observed=np.arange(12) % 3)
    return model


def test_so_do_many_hyperparameters_of_several_classes():
    method = pmgp.PseudoMarginal(model=weighted_model(), compile_kwargs=FAST)
    trajectories = HamiltonianMonteCarlo(0.8, max_leapfrog=5, min_leapfrog=3)
    assert method.scheme.transition == Alternation(IndependenceMixture(), trajectories)


def test_a_mean_and_a_log_scale_move_by_the_mixture():
    """Their gradients are rough where sites are not positive definite."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(8, 3))
    with pm.Model() as model:
        f = []
        for name in ("mean", "log_scale"):
            cov = pm.gp.cov.ExpQuad(3, ls=pm.Gamma(f"lengthscale_{name}", 2, 1, shape=3))
            variance = pm.Gamma(f"variance_{name}", 2, 1)
            f.append(pm.gp.Latent(cov_func=variance * cov).prior(name, X=X, reparameterize=False))
        pm.Normal("y", f[0], pm.math.exp(f[1]), observed=rng.normal(size=8))
    method = pmgp.PseudoMarginal(model=model, compile_kwargs=FAST)
    assert method.scheme.transition == IndependenceMixture(emulates=True)


@pytest.mark.parametrize("settings", [{"delayed_acceptance": False}, {"proposal": "emulated"}, {"proposal": "mixture"}])
def test_but_not_where_nothing_is_screened_or_the_mixture_is_asked_for(wide, settings):
    method = pmgp.PseudoMarginal(model=wide, compile_kwargs=FAST, target_acceptance=0.3, **settings)
    assert method.scheme.transition == IndependenceMixture(0.3, emulates=settings.get("proposal") != "mixture")


def test_few_hyperparameters_move_by_emulated_proposals_unless_others_are_asked_for(probit_model):
    emulated = IndependenceMixture(emulates=True)
    assert pmgp.PseudoMarginal(model=probit_model, compile_kwargs=FAST).scheme.transition == emulated
    plain = pmgp.PseudoMarginal(model=probit_model, compile_kwargs=FAST, proposal="mixture")
    assert plain.scheme.transition == IndependenceMixture()
    asked = pmgp.PseudoMarginal(model=probit_model, compile_kwargs=FAST, proposal="hmc", target_acceptance=0.7)
    assert asked.scheme.transition == HamiltonianMonteCarlo(0.7, max_leapfrog=7)


class WithoutGradient(ExpectationPropagation):
    evidence_gradient = None


def test_an_approximation_without_gradient(wide):
    method = pmgp.PseudoMarginal(model=wide, compile_kwargs=FAST, approximation=WithoutGradient())
    assert method.scheme.transition == IndependenceMixture(emulates=True)
    with pytest.raises(ValueError, match=r"'hmc' needs gradients, and WithoutGradient.* has no evidence_gradient"):
        pmgp.PseudoMarginal(model=wide, compile_kwargs=FAST, approximation=WithoutGradient(), proposal="hmc")


# Gradients of models


@pytest.mark.parametrize("approximation", [Laplace(tolerance=1e-12), ExpectationPropagation(1e-8, max_sweeps=200)])
@pytest.mark.parametrize("name", ["ard", "noisy"])
def test_the_gradient_of_the_screen(binary_data, name, approximation):
    """Through K, through the mean, through the likelihood's parameter, and of the prior with its Jacobian."""
    model = (ard_model if name == "ard" else noisy_model)(*binary_data)
    parts = take_apart(model, compile_kwargs=FAST)
    assert parts.likelihood_elements == ([] if name == "ard" else [1])
    density = ScreenDensity(Evaluator(parts, approximation), None)
    theta = np.linspace(-0.3, 0.6, parts.dimension)
    expected = [
        (density.at(theta + step).log_density - density.at(theta - step).log_density) / 2e-4
        for step in 1e-4 * np.eye(len(theta))
    ]
    assert_allclose(density.gradient(theta), expected, rtol=2e-4, atol=2e-4)


# PyMC's contract


def test_a_restored_state_gives_the_next_draws(wide, step):
    """The gradient where the chain stands is computed again, not kept in the state."""
    start = wide.initial_point()
    step.setup_chain(np.random.default_rng(4), TUNE, 20)
    point, _ = advance(step, start, 0, TUNE + 5, TUNE)
    state = step.sampling_state
    _, expected = advance(step, point, TUNE + 5, TUNE + 15, TUNE)
    step.sampling_state = state
    _, again = advance(step, point, TUNE + 5, TUNE + 15, TUNE)
    assert_array_equal(again, expected)


def test_statistics_of_trajectories(wide, step):
    step.setup_chain(np.random.default_rng(5), TUNE, 20)
    point, rows = wide.initial_point(), []
    for iteration in range(TUNE + 20):
        if iteration == TUNE:
            step.stop_tuning()
        point, [stats] = step.step(point)
        rows.append(stats)
    sampled = rows[TUNE:]
    assert len({stats["step_size"] for stats in sampled if stats["n_steps"] > 1}) == 1
    assert {stats["n_steps"] for stats in rows} == {1, 3, 4, 5}
    assert all(stats["n_newton"] >= stats["n_steps"] for stats in sampled)
    assert not any(stats["diverging"] for stats in sampled)
    for stats in rows:
        if stats["n_steps"] == 1:
            assert np.isnan(stats["energy_error"])
            continue
        assert stats["screen_acceptance_rate"] == pytest.approx(np.exp(min(0.0, -stats["energy_error"])))
