"""Rules are exact for polynomials, or for wide normals, and match known expectations."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import factorial2, ndtr

from pmgp.core.likelihoods import LogGaussianCox
from pmgp.core.numerics.quadrature import (
    SITES,
    equidistant_rule,
    normal_expectation,
    normal_rule,
    tilted_moments,
    tilted_moments_in_parts,
)

MEAN = np.array([[-2.0, 0.0, 0.5], [1.0, 3.0, -0.1]])
VARIANCE = np.array([[0.3, 1.0, 2.0], [0.0, 0.1, 1.5]])


@pytest.mark.parametrize("order", [1, 2, 5, 20, 32])
def test_moments_below_twice_the_order_are_exact(order):
    nodes, weights = normal_rule(order)
    for degree in range(0, 2 * order, 2):
        moment = factorial2(degree - 1) if degree else 1.0
        assert_allclose(weights @ nodes**degree, moment, rtol=1e-10)
    for degree in range(1, 2 * order, 2):
        assert abs(weights @ nodes**degree) < 1e-10 * factorial2(degree)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_the_first_moment_beyond_is_not_exact(order):
    nodes, weights = normal_rule(order)
    assert weights @ nodes ** (2 * order) < 0.99 * factorial2(2 * order - 1)


def test_the_cached_rule_cannot_be_changed():
    for array in normal_rule(8):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (np.exp, np.exp(MEAN + VARIANCE / 2)),
        (np.cos, np.cos(MEAN) * np.exp(-VARIANCE / 2)),
        (np.square, MEAN**2 + VARIANCE),
        (ndtr, ndtr(MEAN / np.sqrt(1.0 + VARIANCE))),
    ],
)
def test_expectations_with_closed_forms(function, expected):
    assert_allclose(normal_expectation(function, MEAN, VARIANCE), expected, rtol=1e-7)


@pytest.mark.parametrize("deviation", [3.0, 5.0, 20.0])
def test_expectations_under_a_wide_normal(deviation):
    mean, variance = np.linspace(0.0, 3.0 * deviation, 25), np.full(25, deviation**2)
    expected = ndtr(mean / np.sqrt(1.0 + variance))
    assert_allclose(normal_expectation(ndtr, mean, variance), expected, rtol=0.0, atol=1e-6)
    assert_allclose(normal_expectation(np.exp, mean, variance), np.exp(mean + variance / 2), rtol=1e-7)
    nodes, weights = normal_rule(32)
    assert np.abs(weights @ ndtr(mean + deviation * nodes[:, None]) - expected).max() > 5e-5


@pytest.mark.parametrize("slope", [5.0, 30.0])
def test_expectations_of_steep_functions(slope):
    """As those of a likelihood whose amplitude multiplies a process of variance one."""
    mean, variance = np.array([-1.0, 0.1, 0.7]), np.array([1.0, 0.5, 1.0])
    expected = ndtr((1.0 + slope * mean) / np.sqrt(1.0 + slope**2 * variance))
    assert_allclose(normal_expectation(lambda f: ndtr(1.0 + slope * f), mean, variance), expected, rtol=1e-6)
    growing = np.exp(slope * mean / 3 + slope**2 * variance / 18)
    assert_allclose(normal_expectation(lambda f: np.exp(slope * f / 3), mean, variance), growing, rtol=1e-6)
    nodes, weights = equidistant_rule(1.0)
    assert np.abs(weights @ ndtr(1.0 + slope * (mean + nodes[:, None])) - expected).max() > 1e-3


def test_a_step_ends_the_search_for_more_nodes():
    found = normal_expectation(lambda f: (f > 0.3).astype(float), np.zeros(2), np.array([1.0, 0.0]))
    assert_allclose(found, [ndtr(-0.3), 0.0], atol=3e-3)


def test_certain_probabilities_do_not_exceed_one():
    variances = np.linspace(0.0, 400.0, 200)
    ones = [normal_expectation(np.ones_like, np.zeros(3), np.full(3, variance)) for variance in variances]
    assert (np.array(ones) == 1.0).all()


def test_zero_variance_evaluates_at_the_mean():
    assert_allclose(normal_expectation(np.tanh, MEAN, np.zeros_like(MEAN)), np.tanh(MEAN), rtol=1e-13)


def test_expectation_of_a_scalar():
    assert normal_expectation(np.square, np.float64(2.0), np.float64(9.0)) == pytest.approx(13.0)


def test_tilted_moments_of_a_gaussian_tilt():
    """N(f|m, v) exp(b f - w f^2 / 2) is normal with precision 1/v + w and mean (m/v + b) / (1/v + w)."""
    m, v = np.array([-1.0, 0.0, 2.0]), np.array([0.5, 1.0, 2.0])
    b, w = np.array([0.3, -1.0, 0.5]), np.array([0.2, 0.7, 0.1])
    tilted = tilted_moments(lambda f: b * f - 0.5 * w * f**2, m, v)
    assert_allclose(tilted.mean, (m / v + b) / (1.0 / v + w), rtol=1e-6)
    assert_allclose(tilted.variance, 1.0 / (1.0 / v + w), rtol=1e-6)
    exponent = (2.0 * b * m + b * b * v - w * m * m) / (1.0 + v * w)
    assert_allclose(tilted.log_normalizer, 0.5 * (exponent - np.log1p(v * w)), atol=1e-6)


def precise_datum() -> tuple[np.ndarray, ...]:
    """Parameters m, v, b, w of a tilt that is a hundred times narrower than its wide normal."""
    return np.array([0.0]), np.array([100.0]), np.array([300.0]), np.array([100.0])


def assert_moments_of_precise_datum(tilted) -> None:
    m, v, b, w = precise_datum()
    assert_allclose(tilted.mean, (m / v + b) / (1.0 / v + w), rtol=1e-6)
    assert_allclose(tilted.variance, 1.0 / (1.0 / v + w), rtol=1e-6)
    assert_allclose(tilted.log_normalizer, 0.5 * (b * b * v / (1.0 + v * w) - np.log1p(v * w)), rtol=1e-6)


def test_nodes_about_the_answer_see_what_is_narrow():
    m, v, b, w = precise_datum()
    near = (np.array([2.95]), np.array([0.012]))
    assert_moments_of_precise_datum(tilted_moments(lambda f: b * f - 0.5 * w * f**2, m, v, near))


def test_nodes_that_are_too_far_apart_close_in():
    m, v, b, w = precise_datum()
    tilted = tilted_moments(lambda f: b * f - 0.5 * w * f**2, m, v)
    assert tilted.variance[0] > 2.0
    for _ in range(6):
        tilted = tilted_moments(lambda f: b * f - 0.5 * w * f**2, m, v, (tilted.mean, tilted.variance))
    assert_moments_of_precise_datum(tilted)


def test_a_term_that_vanishes_everywhere_has_no_moments():
    tilted = tilted_moments(lambda f: np.full_like(f, -np.inf), MEAN[0], VARIANCE[0])
    assert np.isnan(tilted.mean).all()
    assert np.isneginf(tilted.log_normalizer).all()


def test_tilted_moments_without_a_tilt_are_those_given():
    mean, variance, log_normalizer = tilted_moments(lambda f: np.full_like(f, -800.0), MEAN[0], VARIANCE[0])
    assert_allclose(mean, MEAN[0], atol=1e-12)
    assert_allclose(variance, VARIANCE[0], rtol=1e-10)
    assert_allclose(log_normalizer, -800.0, rtol=1e-12)


@pytest.mark.parametrize("near", [False, True])
def test_moments_in_parts_are_those_of_all_sites(near, rng):
    n = 2 * SITES + 3
    mean, variance, b = rng.normal(size=n), rng.uniform(0.5, 2.0, n), rng.normal(size=n)
    place = (0.9 * mean, 0.8 * variance) if near else None
    whole = tilted_moments(lambda f: b * f - np.exp(f), mean, variance, place)
    parts = tilted_moments_in_parts(lambda part: lambda f: b[part] * f - np.exp(f), mean, variance, place)
    for found, expected in zip(parts, whole, strict=True):
        assert_allclose(found, expected, rtol=1e-12)


def test_a_sweep_makes_no_array_of_all_sites_and_nodes(rng):
    n, doubles = 200_000, 8
    likelihood = LogGaussianCox(rng.poisson(1.0, n))
    tracemalloc.start()
    likelihood.tilted_moments(np.zeros(n), np.ones(n))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * doubles * n
