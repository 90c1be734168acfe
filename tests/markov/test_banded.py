"""Precisions of autoregressions are sums of squares of their innovations."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.markov import ChainPattern
from pmgp.core.markov.banded import autoregression
from tests.markov.autoregressions import stationary_variance


def dense(values: np.ndarray) -> np.ndarray:
    """The matrix whose blocks on and below the diagonal are given."""
    _, number, width, _ = values.shape
    out = np.zeros((number * width, number * width))
    for t in range(number):
        part, before = slice(t * width, (t + 1) * width), slice((t - 1) * width, t * width)
        out[part, part] = values[0, t]
        if t:
            out[part, before], out[before, part] = values[1, t], values[1, t].T
    return out


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 9])
@pytest.mark.parametrize("coefficients", [[0.7], [0.5, -0.3], [0.4, 0.2, 0.1], [0.1, 0.2, 0.3, 0.2]], ids=len)
def test_quadratic_forms_are_sums_of_squared_innovations(length, coefficients):
    order, number = len(coefficients), min(len(coefficients), length)
    root = np.random.default_rng(0).normal(size=(order, order))
    initial = root @ root.T + np.eye(order)
    innovations = np.zeros((length, length))
    for t in range(order, length):
        innovations[t, t], innovations[t, t - order : t] = 1.0, -np.array(coefficients)[::-1]
    expected = innovations.T @ innovations / 0.5
    expected[:number, :number] += initial[:number, :number]
    matrix = dense(autoregression(np.array(coefficients), 0.5, initial, length))
    np.testing.assert_allclose(matrix[:length, :length], expected, atol=1e-12)
    rest = len(matrix) - length
    np.testing.assert_array_equal(matrix[length:], np.eye(len(matrix))[length:])
    assert rest < order


def test_a_stationary_autoregression_has_one_variance_and_decays():
    coefficient, variance = 0.8, stationary_variance(0.8, 0.3)
    values = autoregression(np.array([coefficient]), 0.3, np.full((1, 1), 1.0 / variance), 12)
    lags = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    np.testing.assert_allclose(np.linalg.inv(dense(values)), variance * coefficient**lags, atol=1e-12)


def test_the_variance_of_a_random_walk_grows_by_its_innovations():
    pattern = ChainPattern.elements(9)
    factor = pattern.factorize(autoregression(np.ones(1), 0.3, np.full((1, 1), 1.0 / 2.0), 9))
    np.testing.assert_allclose(pattern.site_variances(factor.covariances()), 2.0 + 0.3 * np.arange(9), rtol=1e-12)


@pytest.mark.parametrize("sites", [5, 6])
def test_elements_in_blocks_are_seen_in_turn(sites):
    pattern = ChainPattern.elements(sites, 3)
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(pattern.observe(x), np.arange(float(sites)))
