"""Climbs by BFGS: few gradients where the curvature is known, and ends that lead nowhere."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import rosen, rosen_der

from pmgp.core.importance import quasi_newton
from pmgp.core.importance.quasi_newton import MOST_GRADIENTS, near_maximum

SCALE = np.array([[2.0, 0.3], [0.3, 0.1]])


class Counted:
    """A density that knows where it was computed."""

    def __init__(self, density):
        self._density, self.thetas = density, []

    def __call__(self, theta):
        self.thetas.append(theta)
        return self._density(theta)


def quadratic(theta):
    slope = np.linalg.solve(SCALE, theta)
    return -0.5 * theta @ slope, -slope


def never(theta, gradient):
    return False


def climb(density, start, inverse=SCALE, ended=never):
    counted = Counted(density)
    return near_maximum(counted, np.array(start), inverse, ended), counted.thetas


def test_a_quadratic_takes_one_step_given_its_curvature():
    found, thetas = climb(quadratic, [0.4, -0.2])
    assert_allclose(found.theta, 0.0, atol=1e-12)
    assert_allclose(found.inverse, SCALE)
    assert len(thetas) == 2


def test_where_the_next_step_is_short_the_climb_is_over():
    found, thetas = climb(quadratic, [0.1, 0.0])
    assert_allclose(found.theta + found.step, 0.0, atol=1e-12)
    assert_allclose(found.distance, np.sqrt(-quadratic(np.array([0.1, 0.0]))[0]))
    assert len(thetas) == 1


def ridge(theta):
    return -10.0 * rosen(theta), -10.0 * rosen_der(theta)


def test_a_curved_ridge_is_climbed_with_the_curvature_that_its_gradients_show(monkeypatch):
    found, thetas = climb(ridge, [-1.2, 1.0], np.eye(2) / 100.0)
    assert len(thetas) < MOST_GRADIENTS
    assert 10.0 * rosen(found.theta) < 0.5
    # The twin learns nothing.
    monkeypatch.setattr(quasi_newton, "after_step", lambda inverse, *moved: inverse)
    assert climb(ridge, [-1.2, 1.0], np.eye(2) / 100.0)[0] is None


def test_steps_are_short_in_elements_or_in_deviations():
    """By one in an element, or by three deviations if that is more."""
    _, thetas = climb(lambda theta: (-0.5 * theta @ theta * 1e4, -theta * 1e4), [9.0], np.eye(1) * 1e-4)
    assert_allclose(np.diff(np.ravel(thetas))[:8], -1.0)
    _, thetas = climb(lambda theta: (-0.5 * theta @ theta / 1e4, -theta / 1e4), [900.0], np.eye(1) * 1e4)
    assert_allclose(np.diff(np.ravel(thetas))[:2], -300.0)


@pytest.mark.parametrize("beyond", [(-np.inf, np.zeros(1)), (np.nan, np.zeros(1)), (1.0, np.full(1, np.nan))])
def test_steps_to_where_there_is_no_density_or_gradient_are_shortened(beyond):
    def half(theta):
        return (-0.5 * theta @ theta, -theta) if theta < 1.0 else beyond

    found, thetas = climb(half, [-2.5], np.eye(1) * 2.0)
    assert abs(found.theta) < 0.5
    assert max(thetas) >= 1.0
    assert climb(half, [2.5], np.eye(1))[0] is None


def test_a_climb_that_is_to_end_does_and_one_without_a_maximum_too():
    found, thetas = climb(quadratic, [9.0, 1.0], ended=lambda theta, gradient: True)
    assert (found, len(thetas)) == (None, 1)
    found, thetas = climb(lambda theta: (theta[0], np.ones(1)), [0.0], np.eye(1))
    assert (found, len(thetas)) == (None, MOST_GRADIENTS)
