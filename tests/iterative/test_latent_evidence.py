"""Laplace's evidence of models with latent values by products alone, against the one that factorizes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.core.iterative.laplace import IterativeLaplace
from pmgp.interface.backends import NumpyTiles
from pmgp.interface.covariance import tiled
from pmgp.interface.iterative_laplace import LaplaceDensity
from pmgp.interface.maximum import Objective
from pmgp.interface.model.points import value_point
from pmgp.interface.model.taking_apart import take_apart

RNG = np.random.default_rng(3)
N = 70
X = RNG.standard_normal((N, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
POINT = {"lengthscale": 0.8, "variance": 1.7, "noise": 0.4}


def labels(f) -> None:
    pmgp.BernoulliProbit("y", f, observed=F > 0.0)


def tails(f) -> None:
    """With outliers, at which curvatures are negative."""
    pm.StudentT("y", nu=4.0, mu=f, sigma=0.5, observed=F + 4.0 * (np.arange(N) % 12 == 0))


def twice(f) -> None:
    """Each latent value is observed twice."""
    pm.Bernoulli("y", logit_p=f[np.arange(2 * N) % N], observed=np.tile(F > 0.0, 2))


def latent(observe, sigma=True) -> pm.Model:
    """With a noise of its own in the covariance of f, whose diagonal moves with theta."""
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0, shape=2)
        variance = pm.LogNormal("variance", 0.0, 1.0)
        noise = pm.gp.cov.WhiteNoise(pm.LogNormal("noise", -1.0, 1.0)) if sigma else pm.gp.cov.WhiteNoise(0.4)
        gp = pm.gp.Latent(
            mean_func=pm.gp.mean.Constant(pm.Normal("mean", 0.3, 1.0)),
            cov_func=variance * pm.gp.cov.Matern52(2, ls=lengthscale) + noise,
        )
        observe(gp.prior("f", X=X, reparameterize=False))
    return model


def estimated(observe):
    model = latent(observe)
    density = LaplaceDensity(model, N, IterativeLaplace(tolerance=1e-12))
    theta = density.theta.ravel(value_point(model, POINT))
    return model, density, theta, density.estimate(np.random.default_rng(1), theta)


@pytest.fixture(scope="module")
def of_labels():
    return estimated(labels)


def assert_dense(model, density, theta, found) -> None:
    """Assert that value and gradient are those of Laplace's approximation by factorizations."""
    dense = Objective(model, take_apart(model), pmgp.approximations.Laplace(tolerance=1e-12), prior=False)
    value, gradient = dense(theta)
    assert_allclose(found.log_evidence, value, rtol=1e-6)
    assert_allclose(density.gradient(theta, found), gradient, rtol=1e-4, atol=1e-4)


def test_value_and_gradient_are_those_of_the_dense_approximation(of_labels):
    assert_dense(*of_labels)


@pytest.mark.parametrize("observe", [tails, twice])
def test_likelihoods_that_are_known_by_their_graphs_have_theirs(observe):
    assert_dense(*estimated(observe))


def test_a_diagonal_that_is_left_out_is_rejected(of_labels):
    """The twin: the gradient without that of the last additions to the diagonal."""
    _, density, theta, found = of_labels
    without = density._parts.covariance_pullback(theta, found.covariance, found.mean)
    assert np.abs(without - density.gradient(theta, found)).max() > 0.1


def test_the_public_function_takes_such_models(of_labels):
    model, _, _, exact = of_labels
    found = pmgp.marginal.iterative_log_likelihood(model, POINT, rank=N, random_seed=1)
    assert_allclose(found.value, exact.log_evidence, atol=1e-3)
    assert set(found.gradient) == {"lengthscale_log__", "variance_log__", "noise_log__", "mean"}


def many(x) -> pm.Model:
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(2, ls=pm.LogNormal("lengthscale", 0.0, 1.0, shape=2)))
        pmgp.BernoulliProbit("y", gp.prior("f", X=x(), reparameterize=False), observed=POINTS[:, 0] > 0.0)
    return model


POINTS = np.random.default_rng(5).standard_normal((2000, 2))


def test_no_matrix_is_made_where_inputs_are_data():
    """Taking the model apart, an estimate and its gradient take less than half of one matrix."""
    model = many(lambda: pm.Data("X", POINTS))
    # What is compiled at first is not counted.
    LaplaceDensity(model, 20, IterativeLaplace(1e-2), NumpyTiles(memory=0))
    tracemalloc.start()
    try:
        density = LaplaceDensity(model, 20, IterativeLaplace(1e-2), NumpyTiles(memory=0))
        found = density.estimate(np.random.default_rng(1), density.theta.initial)
        density.gradient(density.theta.initial, found)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 * len(POINTS) ** 2 / 2


def test_constant_inputs_of_many_points_are_refused(monkeypatch):
    monkeypatch.setattr(tiled, "LARGEST_WHOLE", 1999)
    with pytest.raises(pmgp.ModelError, match=r"matrices of 2000 by 2000 .* X=pm\.Data"):
        pmgp.marginal.iterative_log_likelihood(many(lambda: POINTS))


def scaled(f) -> None:
    pm.StudentT("y", nu=4.0, mu=f, sigma=pm.LogNormal("sigma", 0.0, 1.0), observed=F)


def test_hyperparameters_of_the_likelihood_are_refused():
    with pytest.raises(pmgp.ModelError, match=r"the likelihood has hyper-parameters \(sigma_log__\)"):
        pmgp.marginal.iterative_log_likelihood(latent(scaled))


def test_two_latent_vectors_are_refused():
    with latent(labels) as model:
        other = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(2, ls=1.0)).prior("g", X=X, reparameterize=False)
        pmgp.BernoulliProbit("z", model["f"] + other, observed=F > 0.0)
    with pytest.raises(pmgp.ModelError, match="not a single latent vector"):
        pmgp.marginal.iterative_log_likelihood(model)
