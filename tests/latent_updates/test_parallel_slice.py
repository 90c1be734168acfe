"""Slice moves of many particles at once leave the tempered target invariant, each particle for itself."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.transitions.parallel_slices import slices_on_ellipses
from tests.truths import standard_errors_from


def skewed(e: np.ndarray) -> np.ndarray:
    """Log-ratio of a skewed target to the standard normal: (k, 1) -> (k,)."""
    return 3.0 * np.tanh(e[:, 0]) - 0.5 * np.square(e[:, 0] - 1.0)


def moments(temperature: float) -> tuple[float, float]:
    grid = np.linspace(-9.0, 9.0, 20_001)
    weights = np.exp(temperature * skewed(grid[:, None]) - 0.5 * grid**2)
    weights /= weights.sum()
    return float(weights @ grid), float(weights @ grid**2)


def moved(temperature: float, used: float, size: int = 40_000) -> np.ndarray:
    """Particles of the target at one temperature after three moves at another."""
    rng = np.random.default_rng(0)
    grid = np.linspace(-9.0, 9.0, 20_001)
    weights = np.exp(temperature * skewed(grid[:, None]) - 0.5 * grid**2)
    e = rng.choice(grid, size=(size, 1), p=weights / weights.sum())
    values = skewed(e)
    for _ in range(3):
        e, _, values = slices_on_ellipses(rng, e, rng.standard_normal((size, 1)), skewed, values, used)
    np.testing.assert_allclose(values, skewed(e))
    return e[:, 0]


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_the_tempered_target_is_kept(temperature):
    e = moved(temperature, temperature)
    mean, square = moments(temperature)
    assert standard_errors_from(e, mean) < 4.0
    assert standard_errors_from(e**2, square) < 4.0


def moved_with_one_auxiliary(rotated: bool, size: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Particles after three moves on the plane of one auxiliary draw, which is rotated with them or not; and the draw.

    In two dimensions, in the first of which the target is skewed: the plane is all there is to move in.
    """
    rng = np.random.default_rng(2)
    e = np.column_stack([moved(1.0, 1.0, size), rng.standard_normal(size)])
    auxiliary, values = rng.standard_normal((size, 2)), skewed(e)
    for _ in range(3):
        e, turned, values = slices_on_ellipses(rng, e, auxiliary, skewed, values)
        auxiliary = turned if rotated else auxiliary
    return e, auxiliary


def error_of_joint_moments(e: np.ndarray, auxiliary: np.ndarray) -> float:
    """Largest distance of the particle's mean and square, the auxiliary's, and their products, in standard errors."""
    mean, square = moments(1.0)
    x, z = e[:, 0], auxiliary[:, 0]
    products = [(x * z, 0.0), (x * auxiliary[:, 1], 0.0), (e[:, 1] * z, 0.0), (x * z**2, mean)]
    pairs = [(x, mean), (x**2, square), (e[:, 1], 0.0), (e[:, 1] ** 2, 1.0), (z, 0.0), (z**2, 1.0), *products]
    return max(standard_errors_from(*pair) for pair in pairs)


def test_a_rotated_auxiliary_serves_again():
    assert error_of_joint_moments(*moved_with_one_auxiliary(rotated=True)) < 4.0


def test_an_auxiliary_that_is_not_rotated_and_serves_again_is_rejected():
    assert error_of_joint_moments(*moved_with_one_auxiliary(rotated=False)) > 10.0


def test_another_temperature_is_noticed():
    assert standard_errors_from(moved(1.0, 0.5), moments(1.0)[0]) > 10.0


def test_a_particle_that_no_point_of_its_ellipse_can_replace_stays():
    rng, e = np.random.default_rng(1), np.array([[0.3, -1.0], [2.0, 1.0]])

    def only_here(x: np.ndarray) -> np.ndarray:
        return np.where((x == e[0]).all(axis=1), 0.0, -np.inf)

    given = rng.standard_normal((1, 2))
    new, auxiliary, values = slices_on_ellipses(rng, e[:1], given, only_here, np.zeros(1))
    np.testing.assert_array_equal(new, e[:1])
    np.testing.assert_array_equal(auxiliary, given)
    np.testing.assert_array_equal(values, 0.0)
