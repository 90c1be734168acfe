"""Chains for PyMC's time series beside exact sums over states, and beside PyMC's NUTS."""

from __future__ import annotations

import warnings
from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.stats import halfnorm, poisson

import pmgp
from pmgp.interface.model import model_prior
from pmgp.interface.model.markov import SeriesPrior
from tests.references import Reference, apart, root_mean_square, summarized
from tests.time_series.models import SERIES, counts

LENGTH, LEVEL = 40, 0.4


def short_counts() -> tuple[pm.Model, np.ndarray]:
    """Two hyper-parameters, so that sums over a grid of them are exact; the series begins far from its mean."""
    f = 1.0 + np.cumsum(0.4 * np.random.default_rng(4).normal(size=LENGTH))
    y = np.random.default_rng(3).poisson(np.exp(LEVEL + f))
    with pm.Model() as model:
        pm.Poisson("y", pm.math.exp(LEVEL + SERIES["stationary"](LENGTH)), observed=y)
    return model, y


def filtered(y: np.ndarray, rho: float, sigma: float, states: int = 300) -> tuple[float, float]:
    """Log p(y) and the mean of the last value given y, by sums over states eight deviations to each side."""
    deviation = sigma / np.sqrt(1.0 - rho**2)
    grid = np.linspace(-8.0, 8.0, states) * deviation
    step = np.exp(-0.5 * np.square((grid[:, None] - rho * grid) / sigma)) * (grid[1] - grid[0]) / sigma
    weights = np.exp(-0.5 * np.square(grid / deviation)) * (grid[1] - grid[0]) / deviation
    terms, total = poisson.logpmf(y[:, None], np.exp(LEVEL + grid)), -0.5 * len(y) * np.log(2.0 * np.pi)
    for t, term in enumerate(terms):
        largest = term.max()
        weights = (step @ weights if t else weights) * np.exp(term - largest)
        total += largest + np.log(weights.sum())
        weights /= weights.sum()
    return total, float(weights @ grid)


def posterior_moments(y: np.ndarray, points: int = 16) -> dict[str, float]:
    """Means of hyper-parameters and of the last value, by Gauss-Legendre nodes of the former."""
    nodes, weights = np.polynomial.legendre.leggauss(points)
    rhos, sigmas = 0.025 + 0.925 * nodes, 0.7505 + 0.7495 * nodes
    logs, last = np.empty((points, points)), np.empty((points, points))
    for i, rho in enumerate(rhos):
        for j, sigma in enumerate(sigmas):
            logs[i, j], last[i, j] = filtered(y, rho, sigma)
    posterior = np.exp(logs - logs.max() + halfnorm.logpdf(sigmas)) * np.outer(weights, weights)
    posterior /= posterior.sum()
    rho, sigma = posterior.sum(axis=1) @ rhos, posterior.sum(axis=0) @ sigmas
    return {"rho": float(rho), "sigma": float(sigma), "last": float((posterior * last).sum())}


def errors(idata, expected: dict[str, float]) -> dict[str, float]:
    """Differences of means in standard errors."""
    draws = idata["posterior"].dataset[["rho", "sigma"]].assign(last=idata["posterior"]["x"].isel(x_dim_0=-1))
    mean, mcse = draws.mean(), az.mcse(draws, method="mean")
    return {name: abs(float(mean[name]) - value) / float(mcse[name]) for name, value in expected.items()}


def sampled(model: pm.Model, draws: int, **settings):
    with warnings.catch_warnings(), model:
        warnings.simplefilter("ignore", UserWarning)
        step = pmgp.PseudoMarginal(**settings)
        return pm.sample(
            draws,
            tune=700,
            chains=2,
            cores=1,
            step=step,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )


@pytest.fixture(scope="module")
def exact():
    model, y = short_counts()
    return model, posterior_moments(y)


def test_posterior_means_are_exact(exact):
    model, expected = exact
    found = errors(sampled(model, 2500), expected)
    assert max(found.values()) < 4.0, found


class Forgetful(SeriesPrior):
    """A twin that takes the first value for known but for little."""

    def __call__(self, theta):
        prior = super().__call__(theta)
        values = prior.values.copy()
        values[0, 0] += 25.0
        return replace(prior, values=values)


def test_a_twin_that_ignores_the_first_distribution_is_rejected(exact, monkeypatch):
    model, expected = exact
    monkeypatch.setattr(model_prior, "KINDS", [(model_prior.is_markov, Forgetful)])
    found = errors(sampled(pm.model.fgraph.clone_model(model), 4000), expected)
    assert max(found.values()) > 8.0, found


def test_estimates_are_those_of_a_sum_over_states():
    model, y = short_counts()
    value = pmgp.marginal.log_likelihood(
        model, {"rho": 0.7, "sigma": 0.6}, estimator="sequential", repeats=100, random_seed=1
    )
    assert value.standard_error < 0.05
    assert abs(value.value - filtered(y, 0.7, 0.6)[0]) < 4.0 * value.standard_error


def two_hundred_counts() -> pm.Model:
    return counts(200)


def around_their_level() -> pm.Model:
    """The same posterior with the level in the series, where NUTS moves the level easily."""
    same = two_hundred_counts()
    with pm.Model() as model:
        level, rho, sigma = pm.Normal("level", 0.0, 2.0), pm.Uniform("rho", -0.9, 0.95), pm.HalfNormal("sigma", 1.0)
        init = pm.Normal.dist(level, sigma / pm.math.sqrt(1.0 - rho**2))
        coefficients = pm.math.stack([level * (1.0 - rho), rho])
        z = pm.AR("z", rho=coefficients, sigma=sigma, constant=True, init_dist=init, shape=200)
        pm.Deterministic("x", z - level)
        pm.Poisson("y", pm.math.exp(z), observed=same.rvs_to_values[same["y"]].data)
    return model


NUTS = Reference("two hundred counts", around_their_level, ("rho", "sigma", "level", "x"), draws=16_000)


def test_two_hundred_counts_have_the_posterior_that_nuts_finds():
    idata, expected = sampled(two_hundred_counts(), 1000), NUTS.summary()
    found = summarized(idata, NUTS.variables)
    distances = apart(found, expected)["mean"]
    latent = distances.index.str.startswith("x[")
    assert distances[~latent].max() < 4.0
    # All of them have the error of the level.
    assert root_mean_square(distances[latent]) < 4.0
    # A twin whose series has the level in it.
    twin = found.assign(mean=found["mean"] + found["mean"]["level"])
    assert root_mean_square(apart(twin, expected)["mean"][latent]) > 8.0
