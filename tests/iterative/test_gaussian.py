"""The evidence with Gaussian noise and its gradient, against dense algebra; traces without bias, and biased twins."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from pmgp.core.iterative.gaussian import IterativeEvidence
from pmgp.core.iterative.preconditioners import LowRank
from pmgp.core.iterative.preconditioners.random_pivots import random_points
from pmgp.core.iterative.probes import Probes
from pmgp.core.iterative.solvers import NotConvergedError
from tests.finite_differences import central_differences
from tests.iterative.contraction import contracted
from tests.iterative.dense_kernel import DenseKernel, squared_exponential

RNG = np.random.default_rng(0)
N = 60
X = RNG.standard_normal((N, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(N)
THETA = np.array([0.2, -0.3, -2.0])
"""Logs of the variance, the length-scale and the noise."""


def at(theta):
    variance, lengthscale, noise = np.exp(theta)
    return squared_exponential(X, lengthscale, variance), np.full(N, noise)


def log_evidence(theta):
    K, noise = at(theta)
    return multivariate_normal(np.zeros(N), K + np.diag(noise)).logpdf(Y)


def derivatives(step=1e-5):
    """Return the derivatives of K and of the noise in each element of theta."""
    for shift in step * np.eye(3):
        (up, noise_up), (down, noise_down) = at(THETA + shift), at(THETA - shift)
        yield (up - down) / (2 * step), (noise_up - noise_down) / (2 * step)


DERIVATIVES = list(derivatives())
KERNEL, NOISE = DenseKernel(at(THETA)[0]), at(THETA)[1]
GRADIENT = central_differences(log_evidence, THETA, 1e-3)
POINTS = random_points(KERNEL, 25, np.random.default_rng(0))
TIGHT = IterativeEvidence(tolerance=1e-8, probes=8)


def gradient_of(bar):
    return np.array([contracted(bar, dK, dnoise) for dK, dnoise in DERIVATIVES])


def repeated(estimator, number):
    found = [estimator.estimate(np.random.default_rng(s), KERNEL, NOISE, Y, POINTS) for s in range(number)]
    return np.array([one.log_evidence for one in found]), np.array([gradient_of(one.covariance) for one in found])


def z_scores(values, truth):
    return np.abs(values.mean(axis=0) - truth) / (values.std(axis=0, ddof=1) / np.sqrt(len(values)))


@pytest.fixture(scope="module")
def estimates():
    return repeated(TIGHT, 200)


def test_all_points_in_the_preconditioner_leave_no_noise():
    everywhere = random_points(KERNEL, N, np.random.default_rng(0))
    found = TIGHT.estimate(np.random.default_rng(1), KERNEL, NOISE, Y, everywhere)
    assert_allclose(found.log_evidence, log_evidence(THETA), atol=1e-3)
    assert found.standard_error < 1e-3
    assert_allclose(gradient_of(found.covariance), GRADIENT, atol=2e-3)


def test_gradients_are_unbiased(estimates):
    """The mean of 200 estimates, each with eight probes."""
    assert np.all(z_scores(estimates[1], GRADIENT) < 3.0)


def test_log_evidences_are_within_their_errors(estimates):
    assert z_scores(estimates[0], log_evidence(THETA)) < 3.0
    stated = TIGHT.estimate(np.random.default_rng(0), KERNEL, NOISE, Y, POINTS).standard_error
    assert 0.4 < stated / estimates[0].std() < 2.5


def test_the_gradient_in_the_mean_is_that_of_the_quadratic():
    found = TIGHT.estimate(np.random.default_rng(1), KERNEL, NOISE, Y, POINTS)
    assert_allclose(found.mean, np.linalg.solve(KERNEL.K + np.diag(NOISE), Y), atol=1e-6)


def test_a_control_variate_without_its_mean_is_rejected(monkeypatch):
    """Its twin subtracts tr(P^-1 dP) by probes, and does not add it."""

    def without_mean(self, preconditioner, w, solutions, own=Probes.inverse):
        bar = own(self, preconditioner, w, solutions)
        interpolation = np.linalg.solve(KERNEL.K[np.ix_(POINTS, POINTS)], KERNEL.K[POINTS])
        known = 2.0 * preconditioner.solve(interpolation.T)
        known[POINTS] -= interpolation @ preconditioner.solve(interpolation.T)
        return bar._replace(weights=bar.weights - known, noise=bar.noise - preconditioner.inverse_diagonal())

    monkeypatch.setattr(Probes, "inverse", without_mean)
    assert np.max(z_scores(repeated(TIGHT, 20)[1], GRADIENT)) > 12.0


def test_probes_of_the_wrong_covariance_are_rejected(monkeypatch):
    """Standard normal ones, which would be right without a preconditioner."""
    monkeypatch.setattr(LowRank, "sample", lambda self, rng, size: rng.standard_normal((N, size)))
    assert np.max(z_scores(repeated(TIGHT, 20)[1], GRADIENT)) > 12.0


def test_the_control_variate_makes_the_noise_smaller(estimates):
    """Beside traces by the same probes alone."""

    def plain(seed):
        probes = Probes(KERNEL, POINTS)
        P = probes.preconditioner(NOISE)
        w = P.sample(np.random.default_rng(seed), 8)
        u, c = P.solve(w), np.linalg.solve(KERNEL.K + np.diag(NOISE), w)
        return [-0.5 * np.einsum("ik,ij,jk->", u, dK + np.diag(dn), c) / 8 for dK, dn in DERIVATIVES]

    noise_without = np.std([plain(seed) for seed in range(100)], axis=0)
    assert np.all(estimates[1].std(axis=0) < np.array([0.5, 0.75, 0.5]) * noise_without)


def test_a_solver_at_its_cap_gives_no_evidence():
    with pytest.raises(NotConvergedError, match="There is no solution"):
        IterativeEvidence(cap=2).estimate(np.random.default_rng(1), KERNEL, NOISE, Y, POINTS)


def test_a_start_saves_iterations_and_changes_nothing():
    cold = TIGHT.estimate(np.random.default_rng(1), KERNEL, NOISE, Y, POINTS)
    warm = TIGHT.estimate(np.random.default_rng(1), KERNEL, NOISE, Y, POINTS, start=cold.weighted)
    assert_allclose(warm.log_evidence, cold.log_evidence, atol=1e-6)


@pytest.mark.parametrize("probes", [0, 1])
def test_one_probe_is_refused(probes):
    with pytest.raises(ValueError, match=f"probes must be at least 2 for a standard error, not {probes}"):
        IterativeEvidence(probes=probes)
