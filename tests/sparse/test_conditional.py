"""Whitened values given theta: the Gaussian at their mode, and slices about any Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cholesky

from pmgp.core.inducing import Conditional, Derivatives, GaussianFit, conditional, fitted, slices
from tests.finite_differences import central_differences

N, M = 12, 3
NOISE = 0.7
COUNTS = np.random.default_rng(1).poisson(1.5, (2, N))
A = np.random.default_rng(2).standard_normal((2, M, N)) / 2.0


def poisson(projections, outputs=2):
    counts = COUNTS[:outputs]
    return Conditional(
        np.full((outputs, N), 0.3),
        projections,
        lambda f: float((counts * f - np.exp(f)).sum()),
        lambda f: Derivatives(float((counts * f - np.exp(f)).sum()), counts - np.exp(f), -np.exp(f)),
    )


def gaussian():
    """Observations with noise, of one output."""
    y = COUNTS[:1]

    def value(f):
        return -0.5 * float(np.square((y - f) / NOISE).sum())

    return Conditional(
        np.zeros((1, N)),
        [A[0]],
        value,
        lambda f: Derivatives(value(f), (y - f) / NOISE**2, np.full((1, N), -1 / NOISE**2)),
    )


def moments():
    """Of v with Gaussian noise."""
    precision = np.eye(M) + A[0] @ A[0].T / NOISE**2
    return np.linalg.solve(precision, A[0] @ COUNTS[0] / NOISE**2), np.linalg.inv(precision)


def precision_of(factor):
    lower = np.tril(factor)
    return lower @ lower.T


def log_density(density, v):
    return density.log_density(v, density.latent(v))


def test_with_gaussian_noise_the_fit_is_exact():
    mean, covariance = moments()
    fit = fitted(gaussian(), np.full((1, M), 3.0))
    np.testing.assert_allclose(fit.mode[0], mean, atol=1e-12)
    np.testing.assert_allclose(precision_of(fit.factors[0]), np.linalg.inv(covariance), atol=1e-12)


@pytest.mark.parametrize("start", [0.0, 1.0, 40.0])
@pytest.mark.parametrize("projections", [[A[0]], [A[0], np.asfortranarray(A[1])]], ids=["shared", "own"])
def test_the_fit_is_at_the_mode_with_the_curvature_there(monkeypatch, projections, start):
    """From a start where the exponential overflows, too."""
    monkeypatch.setattr(conditional, "ARRIVED", 1e-20)
    density = poisson(projections)
    fit = fitted(density, np.full((2, M), start))
    slope = central_differences(lambda v: log_density(density, v.reshape(2, M)), fit.mode.ravel(), 1e-4)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)
    weights = np.exp(density.latent(fit.mode))
    for row, factor, B in zip(weights, fit.factors, [projections[0], projections[-1]], strict=True):
        np.testing.assert_allclose(precision_of(factor), np.eye(M) + (B * row) @ B.T, rtol=1e-6)


def test_coordinates_and_their_jacobian(rng):
    fit = fitted(poisson([A[0], A[1]]), np.zeros((2, M)))
    w = rng.standard_normal((2, M))
    np.testing.assert_allclose(fit.whitened(fit.mode + fit.deviation(w)), w, atol=1e-12)
    columns = [fit.deviation(unit.reshape(2, M)).ravel() for unit in np.eye(2 * M)]
    np.testing.assert_allclose(fit.log_jacobian, np.linalg.slogdet(np.array(columns))[1])


def test_where_the_density_is_not_finite_there_is_no_fit():
    assert fitted(poisson([np.full((M, N), np.nan)]), np.zeros((2, M))) is None


def distance_of_slices(rng, fit, density):
    """Largest difference of means and variances by slices from those of v, in Monte Carlo standard errors."""
    mean, covariance = moments()
    w = fit.whitened(mean[None])
    draws = np.empty((6000, M))
    for draw in draws:
        w, _ = slices(rng, density, fit, w, 1)
        draw[:] = (fit.mode + fit.deviation(w))[0]
    batches = draws.reshape(30, 200, M)
    distances = []
    for values, truth in ((batches, mean), (np.square(batches - mean), covariance.diagonal())):
        means = values.mean(axis=1)
        distances.append(np.abs(means.mean(axis=0) - truth) / (means.std(axis=0, ddof=1) / np.sqrt(len(means))))
    return np.max(distances)


def poor_fit():
    """Far off, too wide, and with wrong correlations."""
    factor = cholesky(np.array([[2.0, 0.5, 0.0], [0.5, 3.0, -0.4], [0.0, -0.4, 1.0]]), lower=True)
    return GaussianFit(moments()[0][None] + 0.5, [np.asfortranarray(factor)])


def test_slices_leave_the_density_as_it_is_whatever_the_fit(rng):
    assert distance_of_slices(rng, poor_fit(), gaussian()) < 4.0


def test_slices_without_the_ratio_to_the_ellipses_own_gaussian_do_not(rng):
    """The test above with a likelihood that takes the ratio out again."""
    fit, density = poor_fit(), gaussian()

    def without(f):
        v = np.linalg.lstsq(A[0].T, f[0])[0][None]
        return density.value(f) + 0.5 * float(np.square(v).sum() - np.square(fit.whitened(v)).sum())

    careless = Conditional(density.offset, density.projections, without, density.derivatives)
    assert distance_of_slices(rng, fit, careless) > 4.0
