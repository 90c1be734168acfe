"""Whitened values given theta: the Gaussian at their mode, and slices and trajectories about any Gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cholesky

from pmgp.core.inducing import (
    Derivatives,
    GaussianFit,
    WhitenedConditional,
    angle_to_learn,
    conditional,
    fitted,
    slices,
    trajectories,
    trajectory,
)
from tests.confirmation import confirmed
from tests.finite_differences import central_differences

N, M = 12, 3
NOISE = 0.7
COUNTS = np.random.default_rng(1).poisson(1.5, (2, N))
A = np.random.default_rng(2).standard_normal((2, M, N)) / 2.0


def poisson(projections, outputs=2):
    counts = COUNTS[:outputs]
    return WhitenedConditional(
        np.full((outputs, N), 0.3),
        projections,
        lambda f: float((counts * f - np.exp(f)).sum()),
        lambda f: Derivatives(counts - np.exp(f), -np.exp(f)),
    )


def gaussian():
    """Observations with noise, of one output."""
    y = COUNTS[:1]

    def value(f):
        return -0.5 * float(np.square((y - f) / NOISE).sum())

    return WhitenedConditional(
        np.zeros((1, N)),
        [A[0]],
        value,
        lambda f: Derivatives((y - f) / NOISE**2, np.full((1, N), -1 / NOISE**2)),
    )


def moments():
    """Return the moments of v under Gaussian noise."""
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


def by_slices(rng, density, fit, w):
    return slices(rng, density, fit, w, 1)[0]


def by_trajectories(rng, density, fit, w):
    return trajectory(rng, density, fit, w, 0.7).w


def distance(rng, fit, density, move):
    """Largest difference of means and variances by moves from those of v, in Monte Carlo standard errors."""
    mean, covariance = moments()
    w = fit.whitened(mean[None])
    draws = np.empty((6000, M))
    for draw in draws:
        w = move(rng, density, fit, w)
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


@pytest.mark.parametrize("move", [by_slices, by_trajectories])
def test_moves_leave_the_density_as_it_is_whatever_the_fit(rng, move):
    assert distance(rng, poor_fit(), gaussian(), move) < 4.0


def test_slices_without_the_ratio_to_the_ellipses_own_gaussian_do_not(rng):
    """The test above with a likelihood that takes the ratio out again."""
    fit, density = poor_fit(), gaussian()

    def without(f):
        v = np.linalg.lstsq(A[0].T, f[0])[0][None]
        return density.value(f) + 0.5 * float(np.square(v).sum() - np.square(fit.whitened(v)).sum())

    careless = WhitenedConditional(density.offset, density.projections, without, density.derivatives)
    assert distance(rng, fit, careless, by_slices) > 4.0


def rough():
    """With a slope that is a third too small, and another one than that of the value."""
    exact = gaussian()

    def derivatives(f):
        slope, curvature = exact.derivatives(f)
        return Derivatives(slope / 1.5 + 0.3 * np.sin(f), curvature)

    return WhitenedConditional(exact.offset, exact.projections, exact.value, derivatives)


def test_trajectories_need_no_exact_derivatives():
    def score(seed):
        return distance(np.random.default_rng(seed), poor_fit(), rough(), by_trajectories)

    assert confirmed(score, 4.0) < 4.0


def test_trajectories_of_which_the_energy_is_not_kept_do_not(rng, monkeypatch):
    monkeypatch.setattr(trajectories, "_energy", lambda w, momentum: 0.0)
    assert distance(rng, poor_fit(), rough(), by_trajectories) > 4.0


def test_where_the_fit_is_exact_every_trajectory_is_accepted_and_one_turn_is_enough(rng):
    fit = fitted(gaussian(), np.zeros((1, M)))
    w = rng.standard_normal((1, M))
    moved = trajectory(rng, gaussian(), fit, w, 0.5 * np.pi)
    np.testing.assert_allclose(moved.acceptance_rate, 1.0, atol=1e-9)
    assert moved.evaluations == 4
    assert not np.array_equal(moved.w, w)


def test_a_trajectory_to_where_nothing_is_finite_is_rejected(rng):
    fit, w = poor_fit(), np.zeros((1, M))
    exact = gaussian()
    nowhere = WhitenedConditional(exact.offset, exact.projections, exact.value, lambda f: Derivatives(f * np.inf, f))
    moved = trajectory(rng, nowhere, fit, w, 0.7)
    assert moved.acceptance_rate == 0.0
    np.testing.assert_array_equal(moved.w, w)


def test_turns_get_shorter_where_trajectories_are_rejected_and_never_longer_than_a_quarter():
    angle = angle_to_learn()
    assert angle.updated(0.0, trajectories.TARGET).value < angle.value
    for _ in range(50):
        angle = angle.updated(1.0, trajectories.TARGET)
    np.testing.assert_allclose(angle.value, 0.5 * np.pi)
