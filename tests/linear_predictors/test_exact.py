"""The evidence of sums of latent variables: dense algebra for a normal likelihood, quadrature for another one."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal, poisson

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.markov import PathSampling
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.taking_apart import take_apart
from tests.linear_predictors.models import crossed, rows, trend_and_groups

DATA = rows(40, 6, 9)


@pytest.fixture(scope="module")
def normal_model():
    model = trend_and_groups(DATA, 6, 9)
    parts = take_apart(model)
    return model, parts, parts.initial_theta + 0.2


def dense_evidence(rho: float, tau: float, noise: float) -> float:
    """Log N(y|m, K), K made of kernels of groups and times."""
    times = np.arange(9)
    lags = np.abs(np.subtract.outer(times, times))
    # x_0 has a mean of 0.3, which decays.
    trend, mean = rho**lags / (1.0 - rho**2), 0.3 * rho**times
    same = np.equal.outer(DATA.first, DATA.first)
    covariance = trend[np.ix_(DATA.second, DATA.second)] + tau**2 * same * (1.0 + 4.0 * np.outer(DATA.z, DATA.z))
    y = np.log1p(DATA.counts) + 0.1 * DATA.z
    return float(multivariate_normal.logpdf(y, 0.7 + mean[DATA.second], covariance + noise**2 * np.eye(40)))


def test_with_a_normal_likelihood_the_evidence_is_that_of_dense_algebra_and_all_weights_are_one(normal_model):
    _, parts, theta = normal_model
    q = Laplace().fit(parts.prior(theta), parts.likelihood(theta))
    estimate = PathSampling(16).estimate(np.random.default_rng(1), q, parts.likelihood(theta))
    rho = -0.9 + 1.85 / (1.0 + np.exp(-theta[0]))
    expected = dense_evidence(rho, *np.exp(theta[1:]))
    assert estimate.log_evidence == pytest.approx(expected, abs=1e-10 * abs(expected))
    assert estimate.effective_size == pytest.approx(16.0)


def test_a_forgotten_element_of_the_design_changes_the_evidence(normal_model, monkeypatch):
    """The twin of the test above."""
    _, parts, theta = normal_model
    found = parts.latent_vector.predictor.design()
    found.data[3] = 0.0
    monkeypatch.setattr(parts.latent_vector.predictor, "design", lambda: found)
    try:
        parts.refresh_data()
        q = Laplace().fit(parts.prior(theta), parts.likelihood(theta))
        rho = -0.9 + 1.85 / (1.0 + np.exp(-theta[0]))
        assert abs(q.log_evidence - dense_evidence(rho, *np.exp(theta[1:]))) > 1e-3
    finally:
        monkeypatch.undo()
        parts.refresh_data()


def three_counts() -> pm.Model:
    """Two effects and a scalar with a normal prior of its own."""
    with pm.Model() as model:
        tau, level = pm.HalfNormal("tau", 1.0), pm.Normal("level", 0.4, 0.5)
        u = pm.Normal("u", 0.0, tau, shape=2)
        eta = level + u[np.array([0, 1, 1])] * np.array([1.0, 1.0, -0.5])
        pm.Poisson("y", pm.math.exp(eta), observed=np.array([3, 0, 2]))
    return model


def test_three_counts_by_quadrature():
    parts = take_apart(three_counts(), latent=["level", "u"])
    theta, rng = np.log([0.8]), np.random.default_rng(2)
    q = ExpectationPropagation().fit(parts.prior(theta), parts.likelihood(theta))
    estimates = [PathSampling(4000), ImportanceSampling(4000)]
    found = [one.estimate(rng, q, parts.likelihood(theta)).log_evidence for one in estimates]
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    level, u, v = np.meshgrid(0.4 + 0.5 * nodes, 0.8 * nodes, 0.8 * nodes, indexing="ij")
    eta = np.stack([level + u, level + v, level - 0.5 * v], axis=-1)
    likelihood = poisson.pmf([3, 0, 2], np.exp(eta)).prod(axis=-1)
    expected = np.log(np.einsum("i,j,k,ijk->", *[weights / weights.sum()] * 3, likelihood))
    np.testing.assert_allclose(found, expected, atol=0.015)
    assert q.log_evidence == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize(("free", "stored"), [(True, False), (False, True)])
def test_ordered_categories_by_quadrature(free, stored):
    """Each observation has two cutpoints, from which the same predictor is subtracted."""
    group, category, cuts = np.array([0, 0, 0, 1, 1, 2]), np.array([1, 2, 1, 0, 3, 2]), np.array([-1.0, 0.2, 1.5])
    with pm.Model() as model:
        u = pm.Normal("u", 0.0, pm.HalfNormal("tau", 1.0), shape=3)
        ordered = {"transform": pm.distributions.transforms.ordered, "initval": cuts}
        cutpoints = pm.Normal("cuts", 0.0, 2.0, shape=3, **ordered) if free else cuts
        eta = u[group] + 0.5 * np.arange(6.0)
        pm.OrderedLogistic("y", eta=eta, cutpoints=cutpoints, compute_p=stored, observed=category)
    at = {"tau": 0.8, "cuts": cuts} if free else {"tau": 0.8}
    found = pmgp.marginal.log_likelihood(model, at, random_seed=1, compile_kwargs={"mode": INTERPRETED})
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    eta = 0.8 * nodes[:, None] + 0.5 * np.arange(6.0)
    below = 1.0 / (1.0 + np.exp(eta[..., None] - [-np.inf, *cuts, np.inf]))
    of_each = np.diff(below)[:, np.arange(6), category]
    integrals = [weights @ of_each[:, group == one].prod(axis=1) / weights.sum() for one in range(3)]
    assert found.value == pytest.approx(np.log(integrals).sum(), abs=5.0 * found.standard_error + 1e-6)
    assert found.standard_error < 0.01


def test_the_order_of_groups_does_not_matter():
    order = np.random.default_rng(3).permutation(6)
    others = DATA._replace(first=order[DATA.first])
    found = []
    for data in (DATA, others):
        parts = take_apart(crossed(data, 6, 9))
        q = ExpectationPropagation(tolerance=1e-10).fit(
            parts.prior(parts.initial_theta), parts.likelihood(parts.initial_theta)
        )
        found.append((q.log_evidence, parts.unravel_latent(q.mean, parts.initial_theta)["u"]))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-8)
    np.testing.assert_allclose(found[0][1], found[1][1][order], atol=1e-5)


def test_observations_with_the_same_row_share_an_element_and_cost_nothing_more():
    parts = take_apart(crossed(DATA, 6, 9))
    distinct = len({*zip(DATA.first, DATA.second, strict=True)})
    assert parts.latent_vector.design.shape == (6 + 9 + distinct, 15)
    assert distinct < 40
