"""Intercepts and slopes that differ by group, with a covariance of hyper-parameters, by dense algebra."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.core.markov import PathSampling
from pmgp.interface.model.effects import is_correlated
from pmgp.interface.model.taking_apart import take_apart

GROUP, Z, Y = np.arange(24) % 5, np.linspace(-1.0, 2.0, 24), np.sin(np.arange(24))


def model_of() -> pm.Model:
    with pm.Model(coords={"group": range(5)}) as model:
        group, z = pm.Data("group_of", GROUP), pm.Data("z", Z)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        uw = pm.MvNormal("uw", np.array([0.3, -0.2]), chol=chol, shape=(model.dim_lengths["group"], 2))
        pm.Normal("y", uw[group, 0] + z * uw[group, 1], np.float64(0.5), observed=Y)
    return model


def dense_evidence(packed: np.ndarray) -> float:
    """With the factor [[exp(a), 0], [b, exp(c)]]."""
    factor = np.array([[np.exp(packed[0]), 0.0], [packed[1], np.exp(packed[2])]])
    design = np.stack([np.ones(24), Z], axis=1)
    same = np.equal.outer(GROUP, GROUP)
    covariance = same * (design @ factor @ factor.T @ design.T) + 0.25 * np.eye(24)
    return float(multivariate_normal.logpdf(Y, 0.3 - 0.2 * Z, covariance))


@pytest.fixture(scope="module")
def parts():
    return take_apart(model_of())


def fitted(parts, theta):
    return Laplace(sweeps=0).fit(parts.prior(theta), parts.likelihood(theta))


THETA = np.array([0.2, -0.6, -0.3])
UW = np.arange(10.0).reshape(1, 1, 5, 2)


def test_the_evidence_is_that_of_dense_algebra(parts):
    q = fitted(parts, THETA)
    estimate = PathSampling(8).estimate(np.random.default_rng(1), q, parts.likelihood(THETA))
    np.testing.assert_allclose([q.log_evidence, estimate.log_evidence], dense_evidence(THETA), rtol=1e-10)
    # A twin whose intercepts and slopes are independent.
    assert abs(dense_evidence(THETA * [1.0, 0.0, 1.0]) - q.log_evidence) > 1e-2


def test_the_gradient_is_that_of_differences(parts):
    found = evidence_gradient(parts, Laplace(sweeps=0), THETA, fitted(parts, THETA), parts.likelihood(THETA))
    steps = 1e-5 * np.eye(3)
    expected = [(dense_evidence(THETA + step) - dense_evidence(THETA - step)) / 2e-5 for step in steps]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("given", ["cov", "chol"])
def test_a_covariance_of_deviations_and_a_correlation_is_as_good(given):
    with pm.Model(coords={"group": range(5), "effect": ["intercept", "slope"]}) as model:
        sd, r = pm.Exponential("sd", 1.0, shape=2), pm.Uniform("r", -1.0, 1.0)
        lower = [[sd[0], 0.0], [r * sd[1], pt.sqrt(1.0 - r**2) * sd[1]]]
        factor = pt.stack([pt.stack(row) for row in lower])
        matrix = {"cov": factor @ factor.T, "chol": factor}[given]
        uw = pm.MvNormal("uw", np.array([0.3, -0.2]), **{given: matrix}, dims=("group", "effect"))
        pm.Normal("y", uw[GROUP, 0] + Z * uw[GROUP, 1], np.float64(0.5), observed=Y)
    found = pmgp.marginal.log_likelihood(model, {"sd": [1.2, 0.9], "r": -0.5}, random_seed=1)
    packed = np.array([np.log(1.2), -0.45, np.log(0.9 * np.sqrt(0.75))])
    assert found.value == pytest.approx(dense_evidence(packed), abs=1e-8)
    assert abs(found.value - dense_evidence(packed * [1.0, -1.0, 1.0])) > 1e-2


def test_processes_at_the_same_points_are_no_rows_of_groups():
    """However many there are, their covariance is one of inputs."""
    with pm.Model():
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.Gamma("lengthscale", 2.0, 1.0)))
        several = gp.prior("several", X=np.arange(4.0)[:, None], n_outputs=6, reparameterize=False)
        scale = pm.HalfNormal("scale", 1.0)
        effects = pm.MvNormal("effects", np.zeros(2), cov=scale * np.eye(2), shape=(6, 2))
    assert [is_correlated(one) for one in (several, effects)] == [False, True]


def test_they_are_found_described_and_sampled():
    model = model_of()
    assert pmgp.describe(model).latent_vectors["uw"].endswith("correlated elements in each row, in linear predictors")
    with model:
        # PyMC would have Numba compile each deterministic variable, such as the correlations.
        settings = {"var_names": ["uw"], "compute_convergence_checks": False, "progressbar": False, "quiet": True}
        idata = pm.sample(30, tune=60, step=pmgp.PseudoMarginal(), chains=1, cores=1, random_seed=1, **settings)
    assert idata["posterior"]["uw"].shape == (1, 30, 5, 2)
    assert np.ptp(idata["posterior"]["uw"].to_numpy(), axis=1).min() > 0.0


def test_new_groups_have_the_covariance_of_the_others():
    model, packed = model_of(), np.array([0.8, -0.6, 0.5])
    values = {"chol": (("chain", "draw", "packed"), packed[None, None]), "uw": (("chain", "draw", "g", "k"), UW)}
    idata = xr.DataTree.from_dict({"posterior": xr.Dataset(values)})
    model.set_dim("group", 6, coord_values=range(6))
    with model:
        pm.set_data({"group_of": np.array([1, 5]), "z": np.array([2.0, 2.0])})
    found = pmgp.predict(idata, model=model)
    factor, at = np.array([[0.8, 0.0], [-0.6, 0.5]]), np.array([1.0, 2.0])
    np.testing.assert_allclose(found["latent_mean"], [UW[0, 0, 1] @ at, 0.3 - 0.4], rtol=1e-10)
    np.testing.assert_allclose(found["latent_variance"], [0.0, np.square(factor.T @ at).sum()], atol=1e-10)
