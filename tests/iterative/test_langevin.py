"""Stochastic gradient Langevin dynamics: its stationary law for a Gaussian target in closed form, and its schedule."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.iterative.langevin import LangevinState, StochasticLangevin

PRECISION = np.array([[4.0, 1.0], [1.0, 1.0]])
FACTOR = np.linalg.cholesky(np.linalg.inv(PRECISION))


def chain(size, gradient_noise, iterations=60_000, drift=1.0):
    """Draws with a step that is held from the beginning."""
    rng = np.random.default_rng(1)
    sampler = StochasticLangevin(FACTOR)
    state, draws = LangevinState(np.zeros(2), held=size), np.empty((iterations, 2))
    for i in range(iterations):
        noise = gradient_noise * rng.standard_normal(2)
        state = sampler.step(rng, state, -drift * PRECISION @ state.theta + noise)
        draws[i] = state.theta
    return draws


def stationary(size, gradient_noise):
    """White by M, the chain is x' = (1 - size / 2) x + noise of variance size + (size / 2)^2 v, v of the gradients."""
    added = size * np.eye(2) + 0.25 * size**2 * gradient_noise**2 * FACTOR.T @ FACTOR
    white = added / (1.0 - (1.0 - 0.5 * size) ** 2)
    return FACTOR @ white @ FACTOR.T


def z_scores(draws, covariance, size):
    """Return z-scores of second moments, with the correlation time of an autoregression's squares."""
    found = draws.T @ draws / len(draws)
    rho = (1.0 - 0.5 * size) ** 2
    spread = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2)
    return np.abs(found - covariance) / (spread * np.sqrt((1.0 + rho) / (1.0 - rho) / len(draws)))


@pytest.mark.parametrize("gradient_noise", [0.0, 3.0])
def test_the_stationary_covariance_is_that_of_the_closed_form(gradient_noise):
    size = 0.5
    draws = chain(size, gradient_noise)
    assert np.max(z_scores(draws, stationary(size, gradient_noise), size)) < 4.0
    # It is not the posterior's: the method is not exact.
    assert np.max(z_scores(draws, np.linalg.inv(PRECISION), size)) > 8.0


def test_a_drift_that_is_twice_as_large_is_rejected():
    """The twin lacks the half of the article's step."""
    assert np.max(z_scores(chain(0.5, 0.0, drift=2.0), stationary(0.5, 0.0), 0.5)) > 12.0


def test_steps_fall_from_the_first_to_the_last():
    sampler = StochasticLangevin(FACTOR, first=0.1, last=1e-3, horizon=500)
    sizes = [sampler.size(LangevinState(np.zeros(2), t)) for t in (0, 250, 500)]
    assert_allclose([sizes[0], sizes[2]], [0.1, 1e-3])
    assert sizes[0] > sizes[1] > sizes[2]


def test_the_step_is_held_when_the_gradients_noise_is_negligible():
    """After whole batches only, and at the step of that iteration."""
    rng, sampler = np.random.default_rng(0), StochasticLangevin(np.eye(2), batch=10, horizon=100)
    state = LangevinState(np.zeros(2))
    while not state.held:
        last = sampler.size(state)
        state = sampler.step(rng, state, 0.1 * rng.standard_normal(2))
    assert state.iteration % 10 == 0
    assert state.held == last == sampler.size(state)
    noisy = LangevinState(np.zeros(2))
    for _ in range(10):
        noisy = sampler.step(rng, noisy, 100.0 * rng.standard_normal(2))
    assert not noisy.held
    assert noisy.recent == ()


@pytest.mark.parametrize("settings", [{"first": 0.0}, {"last": 0.2}, {"batch": 1}, {"horizon": 0}])
def test_settings_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="must"):
        StochasticLangevin(FACTOR, **settings)
