"""Evidences of data in other units: y, f and the noise times c have a density c^-n times as large."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp.core.gaussians import ConditionedPrior, Conditioning, DensePrior
from tests.steps.test_contract import FAST

N = 30
X = np.linspace(0.0, 3.0, N)[:, None]
RNG = np.random.default_rng(0)
# One value is an outlier, whose site says almost nothing.
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_t(4, size=N) + 4.0 * (np.arange(N) == 7)


def process(variance, unit):
    gp = pm.gp.Latent(cov_func=variance * pm.gp.cov.Matern32(1, ls=1.0))
    return gp.prior("f", X=X, reparameterize=False, jitter=1e-8 * unit**2)


def walk(variance, unit):
    first = pm.Normal.dist(np.float64(0.0), np.float64(unit))
    return pm.GaussianRandomWalk("f", sigma=0.5 * pm.math.sqrt(variance), init_dist=first, shape=N)


@cache
def made(prior, unit: float, several: bool) -> pm.Model:
    with pm.Model() as model:
        noise, variance = (pm.LogNormal(name, 2.0 * np.log(unit), 1.0) for name in ("noise", "variance"))
        f, sigma = prior(variance, unit), pm.math.sqrt(noise)
        if several:
            gp = pm.gp.Latent(cov_func=0.3 * pm.gp.cov.Matern32(1, ls=1.0))
            sigma *= pm.math.exp(gp.prior("g", X=X, reparameterize=False))
        pm.StudentT("y", nu=4.0, mu=f, sigma=sigma, observed=unit * Y)
    return model


def log_evidence(prior, unit: float, *, several: bool = False, **settings) -> float:
    model, theta = made(prior, unit, several), {"noise": 0.04 * unit**2, "variance": unit**2}
    found = pmgp.marginal.log_likelihood(model, theta, random_seed=1, compile_kwargs=FAST, **settings)
    return found.value + N * np.log(unit)


@pytest.mark.parametrize(("estimator", "unit"), [("none", 1e-6), ("importance", 1e7)])
@pytest.mark.parametrize("approximation", ["laplace", "ep"])
@pytest.mark.parametrize("prior", [process, walk])
def test_units_do_not_matter(prior, approximation, estimator, unit):
    """Newton's method stops at a change that is small in any units, but not after the same number of steps."""
    settings = {"approximation": approximation, "estimator": estimator}
    assert log_evidence(prior, unit, **settings) == pytest.approx(log_evidence(prior, 1.0, **settings), abs=0.05)


@pytest.mark.parametrize("unit", [1e-6, 1e7])
def test_several_processes_may_have_units_of_their_own(unit):
    """A process of noise scales has the same values in all units of y."""
    settings = {"several": True, "approximation": "ep", "estimator": "none"}
    assert log_evidence(process, unit, **settings) == pytest.approx(log_evidence(process, 1.0, **settings), abs=0.05)


def test_a_smallest_precision_in_fixed_units_is_found_out(monkeypatch):
    fixed = property(lambda self: (np.full(self.prior.size, 1e-10), np.full(self.prior.size, 1e13)))
    monkeypatch.setattr(ConditionedPrior, "precisions", fixed)
    settings = {"approximation": "laplace", "estimator": "none"}
    assert abs(log_evidence(process, 1e7, **settings) - log_evidence(process, 1.0, **settings)) > 1.0


def test_variances_where_a_site_says_almost_nothing():
    """Its neighbours determine that value, so that 1 - w v has no digits from which v could be computed."""
    K = np.asfortranarray(np.exp(-0.5 * np.square(X - X.T)) + 1e-8 * np.eye(N))
    precision = np.full(N, 1e6)
    precision[7] = 1e-10
    conditioned = Conditioning(DensePrior(np.zeros(N), K))
    assert conditioned.on(np.zeros(N), precision)
    q = conditioned.approximation(0.0, 1)
    others = np.arange(N) != 7
    gain = np.linalg.solve(K[np.ix_(others, others)] + 1e-6 * np.eye(N - 1), K[others, 7])
    expected = K[7, 7] - K[others, 7] @ gain
    assert expected < 1e-5
    assert_allclose(q.variance[7], expected, rtol=1e-6)
    # From the diagonal of B^-1 alone.
    rounded = super(type(q), q).variance_given(q.inverse_diagonal)
    assert abs(rounded[7] / expected - 1.0) > 0.01
