"""The prior of a time series has the density that PyMC gives it, and its likelihood the terms."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.markov import PathSampling
from pmgp.core.markov.banded import expected_values
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.chosen import chosen_estimators
from tests.markov.test_banded import dense
from tests.time_series.models import SERIES, counts, volatility

every_series = pytest.mark.parametrize("series", SERIES.values(), ids=SERIES)


def observed(series, n: int, likelihood=None) -> pm.Model:
    with pm.Model() as model:
        x = series(n)
        (likelihood or (lambda x: pm.Normal("y", x, np.float64(0.5), observed=np.linspace(-1.0, 1.0, n))))(x)
    return model


def around(parts: LatentGaussianModel, number: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [parts.initial_theta + 0.3 * rng.standard_normal(parts.dimension) for _ in range(number)]


@every_series
def test_densities_are_those_of_pymc(series):
    n = 8
    model = observed(series, n)
    parts = take_apart(model)
    log_density = model.compile_fn(
        model.logp(vars=[model["x"]], sum=False)[0], inputs=model.value_vars, mode="FAST_COMPILE"
    )
    rng = np.random.default_rng(2)
    for theta in around(parts):
        prior, x = parts.prior(theta), rng.normal(size=n)
        precision = dense(prior.values)[:n, :n]
        deviation = x - prior.mean
        expected = float(log_density(parts.unravel(theta) | {"x": x}))
        found = 0.5 * (np.linalg.slogdet(precision / (2.0 * np.pi))[1] - deviation @ precision @ deviation)
        assert found == pytest.approx(expected, rel=1e-10)


@every_series
def test_gradients_of_a_prior_are_its_derivatives(series):
    parts = take_apart(observed(series, 7))
    theta, rng, step = around(parts, 1)[0], np.random.default_rng(3), 1e-4
    prior = parts.prior(theta)
    bar, mean_bar = rng.normal(size=prior.values.shape), rng.normal(size=prior.size)

    def inner(at: np.ndarray) -> float:
        found = parts.prior(at)
        return float((bar * found.values).sum() + mean_bar @ found.mean)

    shifts = step * np.eye(parts.dimension)
    first = np.array([inner(theta + s) - inner(theta - s) for s in shifts]) / (2.0 * step)
    second = np.array([inner(theta + 2 * s) - inner(theta - 2 * s) for s in shifts]) / (4.0 * step)
    found = parts.covariance_pullback(theta, bar, mean_bar)
    np.testing.assert_allclose(found, (4.0 * first - second) / 3.0, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 2, 3, 9])
def test_expected_values_follow_the_recursion(order, length):
    rho, initial = np.array([0.5, -0.3, 0.2])[:order], np.arange(1.0, order + 1.0)
    means = list(initial[:length])
    for t in range(order, length):
        means.append(0.7 + sum(rho[k] * means[t - k - 1] for k in range(order)))
    np.testing.assert_allclose(expected_values(rho, 0.7, initial, length), means, rtol=1e-13)


def test_an_explosive_mean_and_impossible_scales_have_no_density():
    def signed(n):
        sigma = pm.Normal("sigma", 1.0, 1.0)
        return pm.AR("x", rho=pm.Normal("rho", 0.5, 1.0), sigma=sigma, init_dist=pm.Normal.dist(1.0, 1.0), shape=n)

    parts = take_apart(observed(signed, 500))
    names = parts.theta_names
    for rho, sigma in ((0.5, -1.0), (40.0, 1.0)):
        theta = np.array([{"rho": rho, "sigma": sigma}[name] for name in names])
        assert Laplace().fit(parts.prior(theta), parts.likelihood(theta)) is None
    assert parts.prior(parts.initial_theta).factorized() is not None


@every_series
def test_normal_observations_have_the_evidence_of_a_kalman_filter(series):
    """In closed form, and all weights are one."""
    parts = take_apart(observed(series, 9))
    y = np.linspace(-1.0, 1.0, 9)
    for theta in around(parts):
        prior, likelihood = parts.prior(theta), parts.likelihood(theta)
        marginal = np.linalg.inv(dense(prior.values)[:9, :9]) + 0.25 * np.eye(9)
        residual = y - prior.mean
        exact = -0.5 * (residual @ np.linalg.solve(marginal, residual) + np.linalg.slogdet(2.0 * np.pi * marginal)[1])
        q = Laplace(sweeps=0).fit(prior, likelihood)
        assert q.log_evidence == pytest.approx(exact, rel=1e-10)
        for estimator in (PathSampling(8, width=2), ImportanceSampling(8)):
            estimate = estimator.estimate(np.random.default_rng(1), q, likelihood)
            assert estimate.log_evidence == pytest.approx(exact, rel=1e-10)
            assert estimate.effective_size == pytest.approx(8.0)


LIKELIHOODS = {
    "counts": lambda n: counts(n),
    "returns": lambda n: volatility(n),
    "student": lambda n: observed(
        SERIES["stationary"],
        n,
        lambda x: pm.StudentT("y", nu=pm.Gamma("nu", 2, 0.1), mu=x, sigma=1.0, observed=np.arange(n) / n),
    ),
    "labels": lambda n: observed(
        SERIES["walk"], n, lambda x: pmgp.BernoulliProbit("y", x, observed=np.arange(n) % 3 == 0)
    ),
    "several times": lambda n: observed(
        SERIES["walk"], n, lambda x: pm.Poisson("y", pm.math.exp(x[np.arange(2 * n) // 2]), observed=np.arange(2 * n))
    ),
    "closed": lambda n: observed(
        SERIES["walk"], n, lambda x: pmgp.likelihoods.LogGaussianCox("y", x, observed=np.arange(n))
    ),
}


@pytest.mark.parametrize("model", LIKELIHOODS.values(), ids=LIKELIHOODS)
def test_terms_of_some_values_are_those_of_the_whole(model):
    n = 50
    parts = take_apart(model(n))
    theta, rng = around(parts, 1)[0], np.random.default_rng(4)
    likelihood, f = parts.likelihood(theta), 0.5 * rng.normal(size=(4, n))
    expected = likelihood.log_density(f)
    for sites in (slice(3, 20), slice(0, n), slice(n - 1, n), np.array([4, 7, 1])):
        found = likelihood.subset(sites).log_likelihood(f[:, sites])
        np.testing.assert_allclose(found, expected[:, sites].sum(axis=1), rtol=1e-10)


@pytest.mark.parametrize(
    ("model", "fast"), [("counts", True), ("returns", True), ("student", True), ("several times", False)]
)
def test_elementwise_terms_are_computed_alone(model, fast):
    parts = take_apart(LIKELIHOODS[model](4800))
    assert parts.terms.divisible is fast
    # Groups are wider where each of them takes the whole likelihood.
    assert chosen_estimators("auto", parts)[0].width == (PathSampling.width if fast else 300)
