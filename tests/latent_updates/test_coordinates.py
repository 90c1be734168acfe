"""Densities in the operators' coordinates: values, gradients, metrics, and what happens to singular covariances."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.gaussians import DensePrior
from pmgp.core.latent_updates.coordinates import (
    ScaledDensity,
    latent,
    scaled_by_posterior,
    scaled_by_prior,
)
from pmgp.core.latent_updates.smmala import LangevinUpdate, ManifoldDensity
from pmgp.core.likelihoods import Likelihood
from tests.latent_updates.cases import GaussianLikelihood, Model, every_model

SIZE = 6
MEAN = np.linspace(-0.5, 1.0, SIZE)


def manifold(prior: DensePrior, likelihood: Likelihood) -> ManifoldDensity | None:
    return LangevinUpdate().prepare(prior, likelihood)


DENSITIES = [latent, manifold, scaled_by_prior, scaled_by_posterior]
every_density = pytest.mark.parametrize("density", DENSITIES, ids=lambda make: make.__name__)


def covariance() -> np.ndarray:
    x = np.linspace(0.0, 1.0, SIZE)
    return np.asfortranarray(2.0 * np.exp(-np.abs(x[:, None] - x) / 0.5) + 0.05 * np.eye(SIZE))


def problem(model: Model) -> tuple[DensePrior, object, np.ndarray]:
    """A prior, a likelihood and latent values."""
    rng = np.random.default_rng(6)
    prior = DensePrior(MEAN, covariance())
    f = prior.sample(rng, 1)[0]
    return prior, model.likelihood(model.draw(rng, f)), f


def log_posterior(model: Model, f: np.ndarray) -> float:
    _, likelihood, _ = problem(model)
    return float(likelihood.log_likelihood(f)) - 0.5 * (f - MEAN) @ np.linalg.solve(covariance(), f - MEAN)


@every_model
@every_density
def test_values_are_the_log_posterior_up_to_a_constant(density, model, rng):
    prior, likelihood, f = problem(model)
    target, other = density(prior, likelihood), f + 0.3 * rng.standard_normal(SIZE)
    points = [target.at(target.enter(values)) for values in (f, other)]
    assert_allclose(points[0].payload, f, rtol=1e-10)
    difference = log_posterior(model, f) - log_posterior(model, other)
    assert points[0].log_density - points[1].log_density == pytest.approx(difference, rel=1e-9)


@every_model
@every_density
def test_gradients_are_those_of_finite_differences(density, model):
    prior, likelihood, f = problem(model)
    target = density(prior, likelihood)
    x = target.enter(f)
    steps = 1e-5 * np.eye(SIZE)
    numerical = [(target.at(x + e).log_density - target.at(x - e).log_density) / 2e-5 for e in steps]
    assert_allclose(target.gradient(x), numerical, rtol=1e-6, atol=1e-6)
    assert_allclose(target.at(x, gradient=True).gradient, target.gradient(x), rtol=1e-12)
    assert target.at(x).gradient.size == 0


@every_model
def test_the_posterior_scale_is_that_of_the_information_at_the_prior_mean(model):
    prior, likelihood, _ = problem(model)
    target = scaled_by_posterior(prior, likelihood)
    factor = np.tril(target.coordinates.factor)
    precision = np.linalg.inv(covariance()) + np.diag(likelihood.fisher_information(MEAN))
    assert_allclose(factor @ factor.T, np.linalg.inv(precision), rtol=1e-9)
    assert_allclose(target.information, likelihood.fisher_information(MEAN))


@every_model
def test_the_metric_is_the_prior_precision_plus_the_information(model):
    prior, likelihood, f = problem(model)
    target = ManifoldDensity(prior, likelihood)
    factor = np.tril(target.with_metric(target.at(f)).metric_factor)
    expected = np.linalg.inv(covariance()) + np.diag(likelihood.fisher_information(f))
    assert_allclose(factor @ factor.T, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("precision", [0.0, 1e-12])
def test_data_that_say_nothing_leave_the_prior(precision, rng):
    """The information is not taken below a thousandth of the prior's precision; the density stays what it is."""
    likelihood = GaussianLikelihood(np.zeros(SIZE), np.ones(SIZE))
    likelihood.precision = np.full(SIZE, precision)
    target = scaled_by_posterior(DensePrior(MEAN, covariance()), likelihood)
    assert_allclose(target.information, 1e-3 / 2.05)
    f, other = rng.standard_normal((2, SIZE))
    points = [target.at(target.enter(values)) for values in (f, other)]
    quadratic = [(values - MEAN) @ np.linalg.solve(covariance(), values - MEAN) for values in (f, other)]
    difference = 0.5 * (quadratic[1] - quadratic[0])
    assert points[0].log_density - points[1].log_density == pytest.approx(difference, rel=1e-7)


@every_density
def test_a_singular_covariance_gets_the_jitter_of_the_prior(density):
    x = np.linspace(0.0, 1.0, 40)
    singular = np.asfortranarray(np.exp(-0.5 * np.square((x[:, None] - x) / 2.0)))
    prior = DensePrior(np.zeros(40), singular)
    likelihood = GaussianLikelihood(np.sin(x), np.full(40, 0.5))
    target = density(prior, likelihood)
    assert prior.jitter == 0.0
    assert 0.0 < prior.factorized().jitter <= 1e-4
    f = prior.factorized().sample(np.random.default_rng(0), 1)[0]
    point = target.at(target.enter(f), gradient=True)
    assert_allclose(point.payload, f, atol=1e-8)
    assert np.isfinite(point.gradient).all()


@every_density
def test_an_indefinite_covariance_has_no_density(density):
    indefinite = np.asfortranarray([[1.0, 5.0], [5.0, 1.0]])
    assert density(DensePrior(np.zeros(2), indefinite), GaussianLikelihood(np.zeros(2), np.ones(2))) is None


def test_without_information_the_scale_is_the_prior():
    prior = DensePrior(MEAN, covariance())
    target = scaled_by_prior(prior, GaussianLikelihood(np.zeros(SIZE), np.ones(SIZE)))
    assert isinstance(target, ScaledDensity)
    assert target.coordinates is prior
    assert target.information is None
