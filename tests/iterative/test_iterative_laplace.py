"""Laplace's approximation by solutions of systems, against the dense one and against differences of its evidence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.iterative.laplace import IterativeLaplace
from pmgp.core.iterative.preconditioners.random_pivots import random_points
from pmgp.core.iterative.probes import Probes
from pmgp.core.iterative.solvers import NotConvergedError
from pmgp.core.likelihoods import BernoulliProbit, LogGaussianCox
from tests.finite_differences import central_differences
from tests.iterative.contraction import contracted
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

RNG = np.random.default_rng(0)
N = 60
X = RNG.standard_normal((N, 2))
MEAN = np.full(N, 0.3)
F = MEAN + np.sin(2.0 * X[:, 0])
LIKELIHOODS = {
    "probit": BernoulliProbit(F + RNG.standard_normal(N) > 0.0),
    "Poisson": LogGaussianCox(RNG.poisson(np.exp(F))),
}
THETA = np.array([0.4, -0.3])
TIGHT = IterativeLaplace(tolerance=1e-14, probes=8)
each = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)


def at(theta):
    return squared_exponential(X, np.exp(theta[1]), np.exp(theta[0])) + 1e-8 * np.eye(N)


def log_evidence(theta, likelihood, mean=MEAN):
    fitted = Laplace(tolerance=1e-16).fit(DensePrior(mean, np.asfortranarray(at(theta))), likelihood)
    return fitted.log_evidence


KERNEL = DenseKernel(at(THETA))
DERIVATIVES = [(at(THETA + h) - at(THETA - h)) / 2e-5 for h in 1e-5 * np.eye(2)]
POINTS = random_points(KERNEL, 15, np.random.default_rng(0))


def gradient_of(found):
    return np.array([contracted(found.covariance, dK, np.zeros(N)) for dK in DERIVATIVES])


class InUnits:
    """A likelihood as a function of f in other units."""

    def __init__(self, likelihood, unit: float) -> None:
        self.likelihood, self.unit = likelihood, unit

    def log_likelihood(self, f):
        return self.likelihood.log_likelihood(f / self.unit)

    def gradient(self, f):
        return self.likelihood.gradient(f / self.unit) / self.unit

    def curvature(self, f):
        return self.likelihood.curvature(f / self.unit) / self.unit**2

    fisher_information = curvature


@pytest.mark.parametrize("unit", [1e-6, 1e7])
@each
def test_the_units_of_f_do_not_matter(likelihood, unit):
    mode = IterativeLaplace().mode(KERNEL, MEAN, likelihood, Probes(KERNEL, POINTS))
    kernel = DenseKernel(unit**2 * KERNEL.K)
    found = IterativeLaplace().mode(kernel, unit * MEAN, InUnits(likelihood, unit), Probes(kernel, POINTS))
    assert_allclose(found.f / unit, mode.f, atol=1e-5)
    assert_allclose(found.a * unit, mode.a, atol=1e-4)


@each
def test_the_mode_is_that_of_the_dense_approximation(likelihood):
    fitted = Laplace(tolerance=1e-16).fit(DensePrior(MEAN, np.asfortranarray(KERNEL.K)), likelihood)
    mode = TIGHT.mode(KERNEL, MEAN, likelihood, Probes(KERNEL, POINTS))
    assert_allclose(mode.f, fitted.mean, atol=1e-6)
    assert_allclose(mode.a, likelihood.gradient(mode.f), atol=1e-5)


@each
def test_all_points_in_the_preconditioner_leave_no_noise(likelihood):
    everywhere = random_points(KERNEL, N, np.random.default_rng(0))
    found = TIGHT.estimate(np.random.default_rng(1), KERNEL, MEAN, likelihood, everywhere)
    assert_allclose(found.log_evidence, log_evidence(THETA, likelihood), atol=1e-4)
    assert_allclose(
        gradient_of(found), central_differences(lambda t: log_evidence(t, likelihood), THETA, 1e-3), atol=1e-3
    )
    by_mean = central_differences(lambda m: log_evidence(THETA, likelihood, MEAN + m[0]), np.zeros(1), 1e-3)
    assert_allclose(found.mean.sum(), by_mean[0], atol=1e-3)


@each
def test_gradients_are_unbiased(likelihood):
    truth = central_differences(lambda t: log_evidence(t, likelihood), THETA, 1e-3)
    found = [TIGHT.estimate(np.random.default_rng(s), KERNEL, MEAN, likelihood, POINTS) for s in range(100)]
    gradients = np.array([gradient_of(one) for one in found])
    errors = gradients.std(axis=0, ddof=1) / 10.0
    assert np.all(np.abs(gradients.mean(axis=0) - truth) < 3.0 * errors)
    values = np.array([one.log_evidence for one in found])
    assert abs(values.mean() - log_evidence(THETA, likelihood)) < 3.0 * values.std(ddof=1) / 10.0


@each
def test_without_the_change_of_the_mode_the_gradient_is_wrong(monkeypatch, likelihood):
    truth = central_differences(lambda t: log_evidence(t, likelihood), THETA, 1e-3)
    everywhere = random_points(KERNEL, N, np.random.default_rng(0))
    monkeypatch.setattr(type(likelihood), "third_derivative", lambda self, f: np.zeros_like(f))
    found = TIGHT.estimate(np.random.default_rng(1), KERNEL, MEAN, likelihood, everywhere)
    assert np.max(np.abs(gradient_of(found) - truth)) > 0.01


def test_a_mode_that_is_not_found_gives_no_value():
    with pytest.raises(NotConvergedError, match="has not found the mode of f: after 1 iterations"):
        IterativeLaplace(max_iterations=1).estimate(
            np.random.default_rng(1), KERNEL, MEAN, LIKELIHOODS["probit"], POINTS
        )


def test_steps_that_overshoot_are_halved():
    """Counts far over their mean, from where Newton's first step overflows."""
    likelihood = LogGaussianCox(np.full(N, 1000))
    mode = IterativeLaplace().mode(KERNEL, np.full(N, -2.0), likelihood, Probes(KERNEL, POINTS))
    assert_allclose(mode.f, np.log(1000.0), atol=0.5)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"max_iterations": 0}, "max_iterations must be a whole number of at least 1"),
        ({"max_iterations": 2.5}, "max_iterations must be a whole number of at least 1, not 2.5"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        IterativeLaplace(**settings)
