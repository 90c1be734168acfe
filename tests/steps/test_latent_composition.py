"""Step methods for f beside each other, and where the data or another step method change what they have cached."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pmgp
from tests.steps.test_latent_contract import FAST, METHODS, X, every_method, moving_theta, sample, truth
from tests.truths import standard_errors_from

one_of_each = pytest.mark.parametrize("method", ["slice-laplace", "metropolis v2", "hmc v1", "smmala"])


def first_steps(step, model: pm.Model, number: int = 3, seed: int = 0) -> np.ndarray:
    step.setup_chain(np.random.default_rng(seed), 5, 5)
    point, path = model.initial_point(), []
    for _ in range(number):
        point, _ = step.step(point)
        path.append(point["f"])
    return np.array(path)


def test_several_operators_move_the_same_latent_vector():
    """Each finds f, and theta, where the others left them."""
    model = moving_theta()
    steps = [
        pmgp.EllipticalSlice(model=model),
        pm.Slice([model["scale"]], model=model),
        pmgp.steps.LatentHMC(mass="prior", model=model),
        pmgp.steps.LatentSMMALA(model=model),
    ]
    posterior = sample(model, steps, draws=3_000, tune=500, chains=2)["posterior"]
    f, scale = posterior["f"].to_numpy(), np.log(posterior["scale"].to_numpy())
    drawn = np.concatenate([scale[..., None], f, f**2], axis=2).reshape(6_000, -1)
    batches = drawn.reshape(60, 100, -1).mean(axis=1)
    assert max(standard_errors_from(b, t) for b, t in zip(batches.T, truth(), strict=True)) < 4.0


@every_method
def test_a_latent_vector_that_was_moved_is_taken_up(method):
    """The same seed from the same f gives the same draw, whether the step method left f there or another one did."""
    model = moving_theta()
    elsewhere = {"f": np.array([-0.3, 0.6, 1.2])}
    step, fresh = (METHODS[method](model=model, compile_kwargs=FAST) for _ in range(2))
    step.setup_chain(np.random.default_rng(0), 0, 9)
    point, _ = step.step(model.initial_point())
    drawn = []
    for stepper, at in ((step, point | elsewhere), (fresh, model.initial_point() | elsewhere)):
        if stepper is fresh:
            stepper.setup_chain(np.random.default_rng(0), 0, 9)
        stepper.rng = np.random.default_rng(8)
        drawn.append(stepper.step(at)[0]["f"])
    assert_array_equal(*drawn)
    assert step.chain.log_density == fresh.chain.log_density


@one_of_each
def test_data_replaced_between_runs(method):
    observed = np.array([0, 2, 1, 3, 0, 1, 1, 2, 6, 3, 2, 0])
    with pm.Model() as model:
        inputs, counts = pm.Data("inputs", X), pm.Data("counts", observed[::-1])
        f = pm.gp.Latent(cov_func=0.8 * pm.gp.cov.Matern52(1, ls=1.0)).prior("f", X=inputs, reparameterize=False)
        pmgp.likelihoods.LogGaussianCox("y", f, observed=counts)
    with pm.Model() as small:
        f = pm.gp.Latent(cov_func=0.8 * pm.gp.cov.Matern52(1, ls=1.0)).prior("f", X=X[:7], reparameterize=False)
        pmgp.likelihoods.LogGaussianCox("y", f, observed=observed[:7])
    step = METHODS[method](model=model, compile_kwargs=FAST)
    assert first_steps(step, model).shape == (3, 12)
    with model:
        pm.set_data({"inputs": X[:7], "counts": observed[:7]})
    expected = first_steps(METHODS[method](model=small, compile_kwargs=FAST), small)
    assert_allclose(first_steps(step, model), expected, rtol=1e-7, atol=1e-9)


@one_of_each
def test_nan_in_the_inputs_is_named(method):
    inputs = X.copy()
    inputs[3, 0] = np.nan
    with pm.Model() as model:
        lengthscale = pm.Gamma("lengthscale", 2, 1)
        f = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=lengthscale)).prior("f", X=inputs, reparameterize=False)
        pmgp.BernoulliLogit("y", f, observed=np.arange(12) % 2)
    with pytest.raises(pmgp.ModelError, match=r"inputs X of 'f', of shape \(12, 1\), .* not finite in row 3"):
        METHODS[method](model=model, compile_kwargs=FAST)


@pytest.mark.parametrize("method", [name for name in METHODS if not name.startswith("slice")])
def test_step_sizes_go_to_the_recommended_rate(method):
    model = moving_theta()
    step = METHODS[method](model=model, compile_kwargs=FAST)
    step.setup_chain(np.random.default_rng(0), 300, 300)
    point, rates, sizes = model.initial_point(), [], []
    for iteration in range(600):
        if iteration == 300:
            step.stop_tuning()
        point, [stats] = step.step(point)
        rates.append(stats["acceptance_rate"])
        sizes.append(stats["step_size"])
    assert np.unique(sizes[300:]).size == 1
    assert np.mean(rates[300:]) == pytest.approx(step.target_acceptance, abs=0.12)
