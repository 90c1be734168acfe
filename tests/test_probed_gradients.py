"""Gradients of log N(y|m, C) by probes: unbiased, with small errors beside the posterior, and a broken twin."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from pmgp.core.numerics import linalg
from pmgp.interface.importance import targets
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.model import normal_evidence
from pmgp.interface.model.normal_evidence import PROBES, probes_of
from tests.finite_differences import central_differences

N, SETS, BOUND = 60, 200, 4.5
RNG = np.random.default_rng(7)
X = RNG.uniform(-2.0, 2.0, (N, 2))
THETA = np.array([0.2, -0.3, 0.4, -1.0])


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        cov = pm.LogNormal("variance", 0.0, 1.0) * pm.gp.cov.Matern52(2, ls=pm.LogNormal("ls", 0.0, 1.0, shape=2))
        mean = pm.gp.mean.Constant(pm.Normal("shift", 0.0, 1.0))
        y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(N)
        gp = pm.gp.Marginal(mean_func=mean, cov_func=cov)
        gp.marginal_likelihood("y", X, y, sigma=0.4)
    return model


@pytest.fixture
def target(model, monkeypatch):
    monkeypatch.setattr(targets, "MANY", N)
    return MarginalTarget(model, model["y"])


def gradients_by(target, monkeypatch):
    """Return gradients with independent sets of probes: (sets, dimension)."""
    rng, found = np.random.default_rng(1), []
    for _ in range(SETS):
        signs = np.asfortranarray(rng.choice([-1.0, 1.0], (N, PROBES)))
        monkeypatch.setattr(normal_evidence, "probes_of", lambda size, signs=signs: signs)
        found.append(target.climbed(THETA)[1])
    return np.array(found)


def largest_bias(found, expected):
    # The mean, and what moves it alone, needs no probes.
    errors = np.maximum(found.std(axis=0, ddof=1) / np.sqrt(SETS), 1e-9)
    return np.abs((found.mean(axis=0) - expected) / errors).max()


def fisher_information(target):
    """Return that of the elements of theta, from differences of the covariance: (dimension,)."""
    covariance = target._evidence._moments(THETA).covariance
    inverse = np.linalg.inv(linalg.symmetrized(covariance))

    def elements(theta):
        return linalg.symmetrized(target._evidence._moments(theta).covariance).ravel()

    changes = central_differences(elements, THETA, 1e-3).reshape(len(THETA), N, N)
    return np.array([0.5 * np.trace(inverse @ change @ inverse @ change) for change in changes])


def test_they_are_unbiased_and_their_variance_is_below_the_fisher_information(target, monkeypatch):
    value, gradient = target.density(THETA)
    assert target.climbed(THETA)[0] == value
    found = gradients_by(target, monkeypatch)
    assert largest_bias(found, gradient) < BOUND
    variances, information = found.var(axis=0, ddof=1), fisher_information(target)
    # The variance of so many sets has an error of a tenth. The gradient in the mean has none.
    assert np.all(variances < 1.5 * information / PROBES + 1e-12)
    assert (variances[information > 0.1] > 0.05 * information[information > 0.1] / PROBES).all()


def test_a_twin_that_solves_with_the_factor_itself_is_biased(target, monkeypatch):
    solve = linalg.triangular_solve
    expected = target.density(THETA)[1]
    monkeypatch.setattr(linalg, "triangular_solve", lambda factor, b, transpose=False: solve(factor, b))
    assert largest_bias(gradients_by(target, monkeypatch), expected) > 2.0 * BOUND


def test_those_given_rows_are_the_same(model, target):
    given = IterativeDensity(model).of_rows(np.arange(N), probed=True)
    for own, expected in zip(given(THETA), target.climbed(THETA), strict=True):
        assert_allclose(own, expected, rtol=1e-8)


def test_few_observations_have_exact_gradients(model):
    target = MarginalTarget(model, model["y"])
    assert_array_equal(target.climbed(THETA)[1], target.density(THETA)[1])


def test_probes_are_the_same_at_each_call():
    assert probes_of(N).flags.f_contiguous
    assert_array_equal(probes_of(N), probes_of(N))
    assert_allclose(np.abs(probes_of(N)), 1.0)
