"""Draws, conditionals and pointwise densities of a process on inducing inputs, against their formulas."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytest
from scipy.stats import norm
from xarray import Dataset, DataTree

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED
from tests.sparse.problems import LABELS, TARGETS, X, gaussian, probit

Z = X[::3]
NEW = np.array([[0.2], [2.3], [9.0]])
INTERPRETING = {"mode": INTERPRETED}
LENGTHSCALE, VARIANCE, NOISE = 0.9, 1.4, 0.3


def kernel(A, B):
    return VARIANCE * np.exp(-0.5 * np.square((A - B.T) / LENGTHSCALE))


def projection(inputs):
    return np.linalg.solve(np.linalg.cholesky(kernel(Z, Z)), kernel(Z, inputs))


def known_process(dist, observed, *parameters, n_outputs=1):
    """All hyper-parameters are numbers."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(
            mean_func=pm.gp.mean.Constant(0.5), cov_func=VARIANCE * pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE)
        )
        f = process.prior("f", X=X, Xu=Z, n_outputs=n_outputs, jitter=0.0)
        process.observe("y", f, *parameters, dist=dist, observed=observed)
    return model, process


@pytest.fixture(scope="module")
def regression():
    return known_process(gaussian, TARGETS, NOISE)


def at(model, outputs, v):
    function = pytensor.function([model["f_rotated_"]], outputs, mode=INTERPRETED, on_unused_input="ignore")
    return function(v)


@pytest.mark.full
def test_marginals_and_the_joint_distribution_at_new_inputs(regression, rng):
    model, process = regression
    v = rng.standard_normal(len(Z))
    marginals = process.marginals(NEW)
    with pm.Model() as other:
        conditional = process.conditional("new", NEW, jitter=0.0)
        moments = conditional.owner.op.dist_params(conditional.owner)
    assert other["new"] is conditional
    A = projection(NEW)
    covariance = kernel(NEW, NEW) - A.T @ A
    mean, variance, joint_mean, joint_covariance = at(model, [*marginals, *moments], v)
    for result in (mean, joint_mean):
        np.testing.assert_allclose(result, 0.5 + A.T @ v, atol=1e-12)
    np.testing.assert_allclose(variance, covariance.diagonal(), atol=1e-12)
    np.testing.assert_allclose(joint_covariance, covariance, atol=1e-12)


@pytest.mark.full
def test_prior_draws_are_those_of_the_whole_process(regression):
    """Also far from the inducing inputs, where all of the variance is that of f given u."""
    y = pm.draw(regression[0]["y"], 4000, random_seed=1, mode=INTERPRETED)
    variance = VARIANCE + NOISE**2
    assert (np.abs(y.mean(axis=0) - 0.5) < 4 * np.sqrt(variance / 4000)).all()
    assert (np.abs(y.var(axis=0) / variance - 1.0) < 4 * np.sqrt(2.0 / 4000)).all()


@pytest.mark.full
def test_labels_of_each_output_have_their_probabilities():
    model, _ = known_process(probit, np.stack([LABELS, 1 - LABELS]), n_outputs=2)
    labels = pm.draw(model["y"], 4000, random_seed=2, mode=INTERPRETED)
    assert labels.shape == (4000, 2, len(X))
    probability = norm.cdf(0.5 / np.sqrt(1.0 + VARIANCE))
    error = np.sqrt(probability * (1.0 - probability) / 4000)
    assert (np.abs(labels.mean(axis=0) - probability) < 4 * error).all()


def posterior(rng, draws=6):
    v = rng.standard_normal((1, draws, len(Z)))
    return DataTree.from_dict({"posterior": Dataset({"f_rotated_": (("chain", "draw", "m"), v)})}), v[0]


def test_pointwise_densities_are_logs_of_expectations(regression, rng):
    model, process = regression
    idata, draws = posterior(rng)
    result = process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
    A = projection(X)
    gamma = VARIANCE - np.square(A).sum(axis=0)
    expected = norm.logpdf(TARGETS, 0.5 + draws @ A, np.sqrt(NOISE**2 + gamma))
    assert result is idata
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values[0], expected, rtol=1e-8)
    # What the sampler uses is smaller: by Jensen's inequality.
    stored = model.compile_fn(model.logp(vars=[model["y"]], sum=False), mode=INTERPRETED)({"f_rotated_": draws[0]})
    assert (stored[0] < expected[0]).all()


@pytest.mark.full
def test_pointwise_densities_of_labels(rng):
    model, process = known_process(probit, LABELS)
    idata, draws = posterior(rng)
    process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
    A = projection(X)
    gamma = VARIANCE - np.square(A).sum(axis=0)
    expected = norm.logcdf((2 * LABELS - 1) * (0.5 + draws @ A) / np.sqrt(1.0 + gamma))
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values[0], expected, rtol=1e-7)


@pytest.mark.full
def test_other_data_can_be_set(rng):
    """Held-out points take the places of those the model was made with."""
    with pm.Model() as model:
        inputs, observed = pm.Data("X", X), pm.Data("observed", TARGETS)
        process = pmgp.gp.Sparse(cov_func=VARIANCE * pm.gp.cov.ExpQuad(1, ls=LENGTHSCALE))
        f = process.prior("f", X=inputs, Xu=Z, jitter=0.0)
        process.observe("y", f, NOISE, dist=gaussian, observed=observed)
        pm.set_data({"X": NEW, "observed": np.array([0.1, 0.2, 0.3])})
    idata, draws = posterior(rng)
    process.compute_log_likelihood(idata, model=model, compile_kwargs=INTERPRETING)
    A = projection(NEW)
    deviation = np.sqrt(NOISE**2 + VARIANCE - np.square(A).sum(axis=0))
    expected = norm.logpdf([0.1, 0.2, 0.3], draws @ A, deviation)
    np.testing.assert_allclose(idata["log_likelihood"]["y"].values[0], expected, rtol=1e-8)
    with model:
        drawn = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False, compile_kwargs=INTERPRETING)
    assert drawn["posterior_predictive"]["y"].shape == (1, 6, 3)


def test_predictions_are_averages_over_draws(regression, rng):
    model, process = regression
    idata, draws = posterior(rng)
    held_out = np.array([0.1, 0.7, -0.3])
    found = process.predict(idata, NEW, observed=held_out, model=model)
    A = projection(NEW)
    means, gamma = 0.5 + draws @ A, VARIANCE - np.square(A).sum(axis=0)
    np.testing.assert_allclose(found["latent_mean"], means.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(found["latent_variance"], gamma + means.var(axis=0), atol=1e-10)
    density = norm.pdf(held_out, means, np.sqrt(NOISE**2 + gamma)).mean(axis=0)
    np.testing.assert_allclose(found["log_density"], np.log(density), atol=1e-10)
    other = process.predict(idata, NEW, observed=held_out, parameters=(1.0,), model=model, draws=1)
    np.testing.assert_allclose(other["log_density"], norm.logpdf(held_out, means[0], np.sqrt(1.0 + gamma)), atol=1e-10)


@pytest.mark.full
def test_probabilities_of_labels_of_two_outputs(rng):
    model, process = known_process(probit, np.stack([LABELS, 1 - LABELS]), n_outputs=2)
    v = rng.standard_normal((1, 4, 2, len(Z)))
    idata = DataTree.from_dict({"posterior": Dataset({"f_rotated_": (("chain", "draw", "k", "m"), v)})})
    found = process.predict(idata, NEW, observed=np.ones((2, 3)), model=model)
    A = projection(NEW)
    gamma = VARIANCE - np.square(A).sum(axis=0)
    expected = norm.cdf((0.5 + v[0] @ A) / np.sqrt(1.0 + gamma)).mean(axis=0)
    np.testing.assert_allclose(np.exp(found["log_density"]), expected, rtol=1e-7)
    assert found["latent_mean"].dims == ("output", "point")


def test_what_predictions_refuse(regression, rng):
    model, process = regression
    idata, _ = posterior(rng)
    with pytest.raises(ValueError, match="the process has no observations 'z'; choose among y"):
        process.predict(idata, NEW, observed=np.zeros(3), name="z", model=model)
    with pytest.raises(ValueError, match=r"the posterior has no draws of .*f_rotated_"):
        process.predict(
            DataTree.from_dict({"posterior": Dataset({"x": (("chain", "draw"), [[0.0]])})}), NEW, model=model
        )
    with pytest.raises(ValueError, match="Xnew has 2 columns and X has 1"):
        process.predict(idata, np.zeros((3, 2)), model=model)
