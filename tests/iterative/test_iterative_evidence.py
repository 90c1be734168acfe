"""pmgp.marginal.iterative_log_likelihood against the density that factorizes, its gradients, and what it refuses."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.core.iterative.solvers import NotConvergedError
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model.observed_normal import gaussian_observations

RNG = np.random.default_rng(0)
N = 80
X = RNG.standard_normal((N, 2))
Y = np.sin(X[:, 0]) + 0.2 * RNG.standard_normal(N)
POINT = {"lengthscale": 0.8, "noise": 0.3}


def regression(cov=None, noise=True) -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0, shape=2)
        mean = pm.gp.mean.Constant(pm.Normal("mean", 0.0, 1.0))
        kernel = pm.gp.cov.ExpQuad(2, ls=lengthscale) if cov is None else cov(lengthscale)
        sigma = pm.LogNormal("noise", -1.0, 1.0) if noise else 0.0
        gp = pm.gp.Marginal(mean_func=mean, cov_func=kernel)
        gp.marginal_likelihood("y", X, Y, sigma=sigma, jitter=1e-6 if noise else 0.0)
    return model


MODEL = regression()


@pytest.fixture(scope="module")
def density():
    return IterativeDensity(MODEL, rank=20)


@pytest.fixture(scope="module")
def truth(density):
    """The density with the prior taken off, and its gradient."""
    target = MarginalTarget(MODEL, gaussian_observations(MODEL))
    theta = target.ravel(pmgp.interface.model.points.value_point(MODEL, POINT))
    value, gradient = target.density(theta)
    return theta, value - target._theta_prior(theta), gradient - target._theta_prior.gradient(theta)


def test_all_points_in_the_preconditioner_leave_no_noise(truth):
    found = pmgp.marginal.iterative_log_likelihood(MODEL, POINT, rank=N, tolerance=1e-6, random_seed=1)
    _, value, gradient = truth
    assert_allclose(found.value, value, atol=1e-3)
    assert found.standard_error < 1e-3
    density = IterativeDensity(MODEL)
    assert_allclose(density.theta.ravel(found.gradient), gradient, atol=2e-3)
    assert repr(found).startswith("IterativeLogLikelihood(-")


def test_values_and_gradients_agree_within_their_errors(density, truth):
    theta, value, gradient = truth
    found = [density.estimate(np.random.default_rng(seed), theta) for seed in range(60)]
    gradients = np.array([density.gradient(theta, one) for one in found])
    errors = gradients.std(axis=0, ddof=1) / np.sqrt(60)
    # What the solver's tolerance leaves is far below one in a thousand.
    assert np.all(np.abs(gradients.mean(axis=0) - gradient) < 3.0 * errors + 1e-3 * np.abs(gradient))
    values = np.array([one.log_evidence for one in found])
    assert abs(values.mean() - value) < 3.0 * values.std(ddof=1) / np.sqrt(60) + 1e-3


def test_a_seed_gives_the_same_numbers():
    one, other = (pmgp.marginal.iterative_log_likelihood(MODEL, POINT, random_seed=3) for _ in range(2))
    assert one.value == other.value


def test_the_cap_gives_no_value():
    with pytest.raises(NotConvergedError, match="a cap over 1, or a Cholesky factorization"):
        pmgp.marginal.iterative_log_likelihood(MODEL, {"lengthscale": 0.3, "noise": 0.05}, rank=2, cap=1)


def test_a_covariance_without_noise_is_refused():
    with pytest.raises(pmgp.ModelError, match="solvers need noise there"):
        pmgp.marginal.iterative_log_likelihood(regression(noise=False))


def test_one_observation_is_refused():
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("lengthscale", 0.0, 1.0)))
        gp.marginal_likelihood("y", np.zeros((1, 1)), np.ones(1), sigma=0.5)
    with pytest.raises(
        pmgp.ModelError, match=r"one observation is too few for iterative solvers.* model\.compile_logp"
    ):
        pmgp.marginal.iterative_log_likelihood(model, random_seed=1)


def test_a_kernel_that_has_no_tiles_is_refused():
    periodic = regression(lambda ls: pm.gp.cov.Periodic(2, period=ls[0], ls=ls[1]))
    with pytest.raises(pmgp.ModelError, match="covariance of 'y' cannot be computed in tiles: the derivative"):
        pmgp.marginal.iterative_log_likelihood(periodic)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"rank": 0}, "rank must be at least 1 and at most the number of points, 80, not 0"),
        ({"rank": 81}, "rank must be at least 1 and at most the number of points, 80, not 81"),
        ({"probes": 1}, "probes must be at least 2"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"cap": 0}, "cap must be a whole number of at least 1"),
        ({"cap": 10.5}, "cap must be a whole number of at least 1, not 10.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        pmgp.marginal.iterative_log_likelihood(MODEL, **settings)
