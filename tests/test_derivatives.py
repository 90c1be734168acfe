"""Derivatives in theta of PyMC models equal finite differences, and so do the gradients that schemes make of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pmgp
from pmgp.core.theta_updates.densities import AncillaryDensity, JointState, LatentPart, SufficientDensity
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.derivatives import DifferentiableLatentModel
from pmgp.interface.model.taking_apart import take_apart
from tests.finite_differences import central_differences

FAST = {"mode": INTERPRETED}
N = 8
RNG = np.random.default_rng(4)
X = RNG.uniform(size=(N, 2))
LABELS = np.array([0, 1, 1, 0, 1, 0, 1, 1])
COUNTS = np.array([0, 3, 1, 0, 7, 2, 1, 2])
REALS = RNG.normal(size=N)
CATEGORIES = np.array([0, 1, 3, 2, 1, 3, 2, 0])
STEP = 1e-3


def probit(f):
    pmgp.BernoulliProbit("y", f, observed=LABELS)


def counts(f):
    pmgp.likelihoods.LogGaussianCox("y", f, observed=COUNTS)


def student_t(f):
    pm.StudentT("y", nu=pm.Gamma("nu", 4.0, 0.5), mu=f, sigma=pm.HalfNormal("sigma", 1.0), observed=REALS)


def ordinal(f):
    ordered = pm.distributions.transforms.ordered
    thresholds = pm.Normal("thresholds", 0.0, 2.0, shape=3, transform=ordered, initval=[-0.8, 0.1, 1.2])
    pmgp.OrdinalProbit("y", f, thresholds, pm.Gamma("noise", 4.0, 4.0), observed=CATEGORIES)


def isotropic():
    return pm.InverseGamma("variance", 3.0, 2.0) * pm.gp.cov.ExpQuad(2, ls=pm.Gamma("lengthscale", 2.0, 4.0))


def several_lengthscales():
    return pm.Gamma("variance", 2.0, 1.0) * pm.gp.cov.Matern52(2, ls=pm.Gamma("lengthscale", 2.0, 4.0, shape=2))


def sum_and_product():
    periodic = isotropic() * pm.gp.cov.Periodic(2, period=pm.Gamma("period", 8.0, 8.0), ls=1.3)
    return periodic + pm.HalfNormal("slope", 1.0) ** 2 * pm.gp.cov.Linear(2, c=0.5)


def linear_mean():
    return pm.gp.mean.Linear(coeffs=pm.Normal("coefficients", 0.0, 1.0, shape=2), intercept=pm.Normal("level"))


class Case:
    """A model, and a theta and an f away from anything special."""

    def __init__(self, observe: Callable, kernel: Callable, mean: Callable = pm.gp.mean.Zero) -> None:
        with pm.Model() as model:
            gp = pm.gp.Latent(mean_func=mean(), cov_func=kernel())
            observe(gp.prior("f", X=X, reparameterize=False, jitter=1e-3))
        self.parts = take_apart(model, compile_kwargs=FAST)
        self.derivatives = DifferentiableLatentModel(self.parts)
        rng = np.random.default_rng(1)
        initial = self.parts.ravel(model.initial_point())
        self.theta = initial + 0.3 * rng.standard_normal(initial.shape)
        self.prior = self.parts.prior(self.theta)
        self.f = self.prior.sample(rng, 1)[0]
        # Elsewhere, so that nothing which goes with the current theta stands in for what is to be tested.
        self.elsewhere = JointState(self.theta + 0.1, LatentPart(self.parts.prior(self.theta + 0.1), self.f))


MODELS = {
    "isotropic": lambda: Case(probit, isotropic),
    "several length-scales": lambda: Case(counts, several_lengthscales),
    "sum and product": lambda: Case(probit, sum_and_product),
    "mean and student t": lambda: Case(student_t, several_lengthscales, linear_mean),
    "ordinal": lambda: Case(ordinal, isotropic),
}
every_model = pytest.mark.parametrize("name", MODELS)


@cache
def case_of(name: str) -> Case:
    return MODELS[name]()


@every_model
@pytest.mark.parametrize("density", [SufficientDensity, AncillaryDensity])
def test_gradients_of_the_conditional_densities(name, density):
    case = case_of(name)
    conditional = density(case.derivatives, case.elsewhere)
    expected = central_differences(lambda theta: conditional.at(theta).log_density, case.theta, STEP)
    point = conditional.at(case.theta, gradient=True)
    assert_allclose(point.gradient, expected, rtol=1e-6, atol=1e-6)
    assert_array_equal(conditional.gradient(case.theta), point.gradient)


@every_model
def test_gradient_of_each_part(name):
    case, rng = case_of(name), np.random.default_rng(2)
    bar = rng.normal(size=(N, N))
    bar += bar.T
    mean_bar = rng.normal(size=N)

    def total(theta):
        prior = case.parts.prior(theta)
        log_density = case.parts.log_prior(theta) + case.parts.likelihood(theta).log_likelihood(case.f)
        return log_density + (bar * prior.covariance).sum() + mean_bar @ prior.mean

    expected = central_differences(total, case.theta, STEP)
    for given in (bar, np.asfortranarray(bar)):
        gradient = case.derivatives.theta_gradient(case.theta, given, mean_bar, case.f)
        assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6)


@every_model
def test_pushforward(name):
    case = case_of(name)
    means, covariances = case.derivatives.pushforward(case.theta)
    dimension = case.theta.size
    assert means.shape == (dimension, N)
    assert covariances.shape == (dimension, N, N)
    expected = central_differences(lambda theta: case.parts.prior(theta).covariance, case.theta, STEP)
    assert_allclose(covariances, expected, rtol=1e-6, atol=1e-7)
    expected = central_differences(lambda theta: case.parts.prior(theta).mean, case.theta, STEP)
    assert_allclose(means, expected, rtol=1e-6, atol=1e-7)


@every_model
def test_curvature(name):
    case = case_of(name)
    zero = np.zeros((N, N)), np.zeros(N)

    def slope(theta):
        return case.derivatives.theta_gradient(theta, *zero, case.f)

    curvature = case.derivatives.curvature(case.theta, case.f)
    assert_allclose(curvature, -central_differences(slope, case.theta, STEP), rtol=1e-5, atol=1e-6)
    assert_allclose(curvature, curvature.T, rtol=1e-12)


@every_model
def test_metrics(name):
    """Fisher information of p(f|theta), or of p(y|f(theta)) by the Jacobian of f(theta), plus the curvature."""
    case = case_of(name)
    curvature = case.derivatives.curvature(case.theta, case.f)
    K, L = case.prior.covariance, np.tril(case.prior.factor)
    means, covariances = case.derivatives.pushforward(case.theta)
    solved = [np.linalg.solve(K, change) for change in covariances]
    information = np.array([[0.5 * np.trace(a @ b) for b in solved] for a in solved])
    information += means @ np.linalg.solve(K, means.T)
    assert_metric(SufficientDensity(case.derivatives, case.elsewhere), case.theta, information + curvature)
    ancillary = AncillaryDensity(case.derivatives, case.elsewhere)
    jacobian = central_differences(lambda theta: ancillary.at(theta).payload.f, case.theta, STEP)
    f = case.prior.mean + L @ ancillary.nu
    fisher = case.parts.likelihood(case.theta).fisher_information(f)
    curvature = case.derivatives.curvature(case.theta, f)
    assert_metric(ancillary, case.theta, jacobian @ np.diag(fisher) @ jacobian.T + curvature)


def assert_metric(density, theta, metric):
    """The factor is that of the metric with its eigenvalues replaced by their sizes."""
    factor = density.with_metric(density.at(theta, gradient=True)).metric_factor
    values, vectors = np.linalg.eigh(metric)
    expected = (vectors * np.abs(values)) @ vectors.T
    assert_array_equal(factor, np.tril(factor))
    assert_allclose(factor @ factor.T, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert np.linalg.eigvalsh(factor @ factor.T).min() > 0.0


def test_only_what_is_asked_for_is_compiled():
    parts = case_of("isotropic").parts
    assert not hasattr(DifferentiableLatentModel(parts, gradient=False, metric=False), "_likelihood_gradient")
    assert not hasattr(DifferentiableLatentModel(parts, metric=False), "_pushforward")


def test_a_flat_prior_and_a_fixed_covariance():
    """Nothing but the mean depends on theta, and the prior does not."""
    case = Case(probit, lambda: pm.gp.cov.ExpQuad(2, ls=0.5), lambda: pm.gp.mean.Constant(pm.Flat("level")))
    means, covariances = case.derivatives.pushforward(case.theta)
    assert_array_equal(means, np.ones((1, N)))
    assert_array_equal(covariances, np.zeros((1, N, N)))
    assert_array_equal(case.derivatives.curvature(case.theta, case.f), [[0.0]])
    bar = np.arange(N, dtype=float)
    gradient = case.derivatives.theta_gradient(case.theta, np.zeros((N, N)), bar, case.f)
    assert_allclose(gradient, [bar.sum()])


def test_derivatives_survive_a_pickle():
    case = case_of("isotropic")
    twin = cloudpickle.loads(cloudpickle.dumps(case.derivatives))
    assert_array_equal(twin.pushforward(case.theta)[1], case.derivatives.pushforward(case.theta)[1])
    assert_array_equal(twin.curvature(case.theta, case.f), case.derivatives.curvature(case.theta, case.f))
