"""Slice moves of many particles at once leave the tempered target invariant, each particle for itself."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.operators.parallel_slice import slices_on_ellipses
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
        e, values = slices_on_ellipses(rng, e, rng.standard_normal((size, 1)), skewed, values, used)
    np.testing.assert_allclose(values, skewed(e))
    return e[:, 0]


@pytest.mark.parametrize("temperature", [0.2, 1.0])
def test_the_tempered_target_is_kept(temperature):
    e = moved(temperature, temperature)
    mean, square = moments(temperature)
    assert standard_errors_from(e, mean) < 4.0
    assert standard_errors_from(e**2, square) < 4.0


def test_another_temperature_is_noticed():
    assert standard_errors_from(moved(1.0, 0.5), moments(1.0)[0]) > 10.0


def test_a_particle_that_no_point_of_its_ellipse_can_replace_stays():
    rng, e = np.random.default_rng(1), np.array([[0.3, -1.0], [2.0, 1.0]])

    def only_here(x: np.ndarray) -> np.ndarray:
        return np.where((x == e[0]).all(axis=1), 0.0, -np.inf)

    new, values = slices_on_ellipses(rng, e[:1], rng.standard_normal((1, 2)), only_here, np.zeros(1))
    np.testing.assert_array_equal(new, e[:1])
    np.testing.assert_array_equal(values, 0.0)
