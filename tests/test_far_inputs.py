"""Inputs far from zero, such as Unix seconds, have the distances of the same inputs about zero."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from pymc.gp import cov

import pmgp
from pmgp.interface.covariance import distances
from pmgp.interface.covariance.distances import centered
from pmgp.interface.dense_jax.covariance import JaxCovariance
from pmgp.interface.model.latent_prior import latent_prior
from pmgp.interface.model.taking_apart import take_apart

# Whole numbers, so that the inputs themselves are not rounded; with length-scales about one.
FAR = 1e9
X = np.array([[0.0, 3.0], [1.0, 5.0], [2.0, 4.0], [4.0, 4.0], [7.0, 1.0], [9.0, 2.0], [12.0, 0.0], [13.0, 7.0]])
XNEW = np.array([[3.0, 2.0], [11.0, 6.0], [16.0, 1.0]])
LABELS = np.array([0, 1, 1, 0, 1, 1, 0, 0])
Y = np.array([0.3, 1.2, 0.8, -0.4, 0.7, 1.1, -0.9, -0.2])
KERNELS = {
    "a length-scale for each column": lambda ls: cov.Matern52(2, ls=[ls, 2.0]),
    "a product of columns": lambda ls: (
        cov.ExpQuad(2, ls=ls, active_dims=[0]) * cov.Matern32(2, ls=2.0, active_dims=[1])
    ),
    "a sum": lambda ls: cov.RatQuad(2, ls=ls, alpha=0.5) + 0.3 * cov.Exponential(2, ls=3.0, active_dims=[1]),
}


def latent(shift, kernel, data=np.asarray):
    return latent_and_process(shift, kernel, data)[0]


def latent_and_process(shift, kernel, data=np.asarray):
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.5, 0.5)
        gp = pm.gp.Latent(cov_func=2.0 * kernel(lengthscale))
        f = gp.prior("f", X=data(X + shift), reparameterize=False)
        pm.Bernoulli("y", logit_p=f, observed=LABELS)
    return model, gp


def on_inducing_inputs(shift):
    with pm.Model() as model:
        gp = pmgp.gp.Sparse(cov_func=2.0 * cov.Matern52(1, ls=pm.LogNormal("lengthscale", 0.5, 0.5)))
        f = gp.prior("f", X=X[:, :1] + shift, Xu=X[::2, :1] + shift)
        gp.observe("y", f, dist=pmgp.BernoulliProbit.dist, observed=LABELS)
    return model


def observed(shift, kernel):
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=2.0 * kernel(pm.LogNormal("lengthscale", 0.5, 0.5)))
        gp.marginal_likelihood("y", X + shift, Y, sigma=0.3)
    return model


def moments_and_gradient(model):
    parts = take_apart(model)
    theta, bar = parts.initial_theta, np.eye(len(X)) + np.ones((len(X), len(X)))
    return np.tril(parts.prior(theta).covariance), parts.latent_prior.pullback(theta, bar, np.zeros(len(X)))


@pytest.mark.parametrize("data", [np.asarray, lambda X: pm.Data("X", X)], ids=["array", "pm.Data"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_covariances_and_gradients_are_those_near_zero(kernel, data):
    near, far = (moments_and_gradient(latent(shift, kernel, data)) for shift in (0.0, FAR))
    for found, expected in zip(far, near, strict=True):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_as_pymc_writes_them_they_are_not(monkeypatch):
    monkeypatch.setattr(distances, "FAR", np.inf)
    kernel = KERNELS["a length-scale for each column"]
    near, far = (moments_and_gradient(latent(shift, kernel))[0] for shift in (0.0, FAR))
    assert np.abs(far - near).max() > 0.1


def test_graphs_of_inputs_near_zero_stay_as_they_are():
    X = np.random.default_rng(0).normal(50.0, 1.0, size=(20, 2))
    covariance = cov.ExpQuad(2, ls=pm.LogNormal.dist())(X)
    assert centered([covariance]) == [covariance]


def test_columns_of_new_data_are_shifted_by_their_own_mean():
    kernel = KERNELS["a sum"]
    with latent(FAR, kernel, lambda X: pm.Data("X", X)):
        parts = take_apart(pm.modelcontext(None))
        pm.set_data({"X": 2.0 * X - FAR})
    parts.refresh_data()
    with latent(0.0, kernel, lambda X: pm.Data("X", X)):
        expected = take_apart(pm.modelcontext(None))
        pm.set_data({"X": 2.0 * X})
    expected.refresh_data()
    theta = parts.initial_theta
    assert_allclose(np.tril(parts.prior(theta).covariance), np.tril(expected.prior(theta).covariance), atol=1e-9)


@pytest.mark.parametrize("given", [True, False], ids=["the process", "its graph"])
def test_predictions_are_those_near_zero(given):
    kernel = KERNELS["a product of columns" if given else "a length-scale for each column"]
    rng = np.random.default_rng(1)
    draws = {
        "lengthscale": (("chain", "draw"), [[0.9, 1.7]]),
        "f": (("chain", "draw", "i"), rng.normal(size=(1, 2, 8))),
    }
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(draws)})
    found = []
    for shift in (0.0, FAR):
        model, gp = latent_and_process(shift, kernel)
        known = {"gp": gp} if given else {}
        found.append(pmgp.predict(idata, XNEW + shift, model=model, progressbar=False, **known))
    xr.testing.assert_allclose(found[1].drop_vars("x", errors="ignore"), found[0], rtol=1e-6)


def test_evidence_of_normal_observations_is_that_near_zero():
    near, far = (pmgp.find_map(observed(shift, KERNELS["a sum"])).log_evidence for shift in (0.0, FAR))
    assert far == pytest.approx(near, abs=1e-6)


def test_log_densities_with_inducing_inputs_are_those_near_zero():
    values = []
    for shift in (0.0, FAR):
        model = on_inducing_inputs(shift)
        values.append(float(model.compile_logp(mode="FAST_COMPILE")(model.initial_point())))
    assert values[1] == pytest.approx(values[0], abs=1e-6)


def test_covariances_on_a_device_are_those_near_zero():
    found = []
    for shift in (0.0, FAR):
        parts = take_apart(latent(shift, KERNELS["a sum"]), priors=latent_prior)
        prior = parts.latent_prior
        at = JaxCovariance(prior.mean, prior.covariance, parts.theta, "cpu")(parts.initial_theta)
        found.append(np.asarray(at.covariance))
    assert_allclose(found[1], found[0], atol=1e-9)
