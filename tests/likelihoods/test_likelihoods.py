"""Every likelihood against arithmetic of 450 decimal digits, to |f| = 40 in both tails.

A likelihood that is exported but not listed in CASES fails the first test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, ndtr

from pmgp import likelihoods

DIGITS = 450
STEP = Decimal("1e-30")
POINTS = np.array([0.0, 0.3, 1.0, 1.7, 3.0, 5.5, 8.4, 15.0, 25.0, 37.5, 40.0])
POINTS = np.concatenate([-POINTS[:0:-1], POINTS])


def arctan_of_inverse(k: int) -> Decimal:
    term, total, n = Decimal(1) / k, Decimal(0), 1
    while abs(term) > Decimal(10) ** (-DIGITS - 5):
        total += term / n
        term, n = -term / (k * k), n + 2
    return total


@cache
def log_sqrt_two_pi() -> Decimal:
    """By Machin's formula."""
    return (8 * (4 * arctan_of_inverse(5) - arctan_of_inverse(239))).ln() / 2


@cache
def log_normal_distribution(z: Decimal) -> Decimal:
    """Log Phi(z) from Phi(z) = 1/2 + phi(z) sum_k z^(2k+1) / (2k+1)!!."""
    term, total, k = z, Decimal(0), 1
    while abs(term) > Decimal(10) ** (-DIGITS):
        total += term
        term, k = term * z * z / (k + 2), k + 2
    return (Decimal("0.5") + (-z * z / 2 - log_sqrt_two_pi()).exp() * total).ln()


@dataclass(frozen=True)
class Case:
    """A likelihood, the observations it allows, its exact log-density and an error for others."""

    support: tuple[int, ...]
    log_density: Callable[[int, Decimal], Decimal]
    mean: Callable[[np.ndarray], np.ndarray]
    outside: tuple[tuple[list[float], str], ...]


BAD_LABELS = (([0, 1, 2], "found 2"), ([-1, 1], "found -1"), ([0.5, 1], "0.5"), ([np.nan], "nan"))
CASES = {
    "BernoulliProbit": Case((0, 1), lambda y, f: log_normal_distribution(f if y else -f), ndtr, BAD_LABELS),
    "BernoulliLogit": Case((0, 1), lambda y, f: -(1 + (-f if y else f).exp()).ln(), expit, BAD_LABELS),
}
every_likelihood = pytest.mark.parametrize("name", CASES)
every_observation = pytest.mark.parametrize(
    ("name", "y"), [(name, y) for name, case in CASES.items() for y in case.support]
)


def make(name: str, y: np.ndarray):
    return getattr(likelihoods, name)(np.asarray(y))


def repeated(name: str, y: int, size: int = POINTS.size):
    """The likelihood of `size` observations that all equal y."""
    return make(name, np.full(size, y))


@cache
def exact(name: str, y: int, order: int) -> np.ndarray:
    """The log-density at POINTS, its derivative, or minus its second one: central differences."""

    def value(f: Decimal) -> Decimal:
        def density(shift: Decimal) -> Decimal:
            return CASES[name].log_density(y, f + shift)

        match order:
            case 0:
                return density(Decimal(0))
            case 1:
                return (density(STEP) - density(-STEP)) / (2 * STEP)
            case _:
                return (2 * density(Decimal(0)) - density(STEP) - density(-STEP)) / STEP**2

    with localcontext(prec=DIGITS):
        return np.array([float(value(Decimal(float(f)))) for f in POINTS])


def test_every_exported_likelihood_is_tested_here():
    assert set(CASES) == set(likelihoods.__all__) - {"Likelihood"}


def test_the_exact_log_density_is_that_of_known_values():
    with localcontext(prec=DIGITS):
        assert float(log_normal_distribution(Decimal(0)).exp()) == 0.5
        # Abramowitz and Stegun, Table 26.2: -log10 of the upper tail at 5, 10 and 40.
        for z, digits in ((5, 6.54265), (10, 23.11805), (40, 349.43701)):
            tail = -float(log_normal_distribution(Decimal(-z))) / np.log(10.0)
            assert tail == pytest.approx(digits, abs=1e-5)


@every_observation
def test_log_density(name, y):
    assert_allclose(repeated(name, y).log_density(POINTS), exact(name, y, 0), rtol=1e-13)


@every_observation
def test_gradient_is_the_derivative(name, y):
    assert_allclose(repeated(name, y).gradient(POINTS), exact(name, y, 1), rtol=1e-11)


@every_observation
def test_curvature_is_minus_the_second_derivative(name, y):
    assert_allclose(repeated(name, y).curvature(POINTS), exact(name, y, 2), rtol=1e-8)


@every_likelihood
def test_fisher_information_is_the_expected_curvature(name):
    case = CASES[name]
    expected = sum(np.exp(exact(name, y, 0)) * exact(name, y, 2) for y in case.support)
    information = repeated(name, case.support[0]).fisher_information(POINTS)
    assert_allclose(information, expected, rtol=1e-8, atol=1e-300)
    assert np.all(information >= 0.0)


@every_likelihood
def test_probabilities_sum_to_one(name):
    densities = [np.exp(repeated(name, y).log_density(POINTS)) for y in CASES[name].support]
    assert_allclose(sum(densities), 1.0, rtol=1e-14)


FAR = np.array([-1e8, -2e4, -1e4, -9e3, -500.0, 500.0, 9e3, 1e4, 2e4, 1e8])


@every_observation
def test_derivatives_are_finite_far_beyond_the_tails(name, y):
    likelihood = repeated(name, y, FAR.size)
    assert np.isfinite(likelihood.log_density(FAR)).all()
    assert np.isfinite(likelihood.gradient(FAR)).all()
    assert np.isfinite(likelihood.curvature(FAR)).all()
    assert np.isfinite(likelihood.fisher_information(FAR)).all()


def test_probit_curvature_tends_to_one_from_below():
    z = -np.geomspace(100.0, 1e7, 60)
    curvature = repeated("BernoulliProbit", 1, z.size).curvature(z)
    assert_allclose(curvature, 1.0 - 1.0 / z**2, rtol=1e-7)
    assert np.all(curvature <= 1.0)


@every_likelihood
def test_log_likelihood_sums_over_sites_and_keeps_leading_axes(name, rng):
    f = rng.normal(size=(2, 3, 6))
    y = rng.choice(CASES[name].support, size=6)
    likelihood = make(name, y)
    expected = np.zeros((2, 3))
    for i in range(6):
        expected += make(name, y[i : i + 1]).log_density(f[..., i : i + 1])[..., 0]
    assert_allclose(likelihood.log_likelihood(f), expected, rtol=1e-13)
    assert np.shape(likelihood.log_likelihood(f[0, 0])) == ()


def probability_error(name: str, variance: float) -> float:
    """Largest error of P(y = 1) over means between -8 and 8, against a fine sum."""
    mean = np.linspace(-8.0, 8.0, 33)
    z = np.linspace(-9.0, 9.0, 20_001)
    density = np.exp(-0.5 * z**2) / np.exp(-0.5 * z**2).sum()
    expected = CASES[name].mean(mean[:, None] + np.sqrt(variance) * z) @ density
    probability = getattr(likelihoods, name).probability(mean, np.full_like(mean, variance))
    return np.abs(probability - expected).max()


@every_likelihood
@pytest.mark.parametrize("variance", [1e-4, 0.3, 2.0, 9.0])
def test_probability_is_the_expectation_over_f(name, variance):
    assert probability_error(name, variance) < 3e-5


@pytest.mark.parametrize(
    "name",
    [
        "BernoulliProbit",
        "BernoulliLogit",
    ],
)
@pytest.mark.parametrize("variance", [50.0, 400.0])
def test_probability_at_the_variances_of_wide_priors(name, variance):
    assert probability_error(name, variance) < 1e-4


@every_likelihood
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_probability_keeps_the_shape(name, shape):
    probability = getattr(likelihoods, name).probability
    mean, variance = np.full(shape, 0.7), np.full(shape, 9.0)
    one = probability(np.array([0.7]), np.array([9.0]))[0]
    assert_allclose(probability(mean, variance), np.full(shape, one), rtol=1e-12)


@every_likelihood
def test_probability_without_variance_is_the_conditional_one(name):
    probability = getattr(likelihoods, name).probability(POINTS, np.zeros_like(POINTS))
    assert_allclose(probability, np.exp(exact(name, 1, 0)), rtol=1e-12, atol=1e-300)


def tilted_by_summation(likelihood, mean: float, variance: float) -> tuple[float, float, float]:
    """Moments of p(y|f) N(f|mean, variance) on a fine grid about its mode."""
    wide = mean + np.sqrt(variance) * np.linspace(-60.0, 60.0, 20_001)

    def log_tilted(f: np.ndarray) -> np.ndarray:
        return likelihood.log_density(f[:, None])[:, 0] - 0.5 * (f - mean) ** 2 / variance

    inside = wide[log_tilted(wide) > log_tilted(wide).max() - 60.0]
    grid = np.linspace(inside[0] - 0.1, inside[-1] + 0.1, 40_001)
    largest = log_tilted(grid).max()
    density = np.exp(log_tilted(grid) - largest)
    center = density @ grid / density.sum()
    normalizer = largest + np.log(density.sum() * (grid[1] - grid[0])) - 0.5 * np.log(2.0 * np.pi * variance)
    return center, density @ np.square(grid - center) / density.sum(), normalizer


@every_observation
@pytest.mark.parametrize("mean", [-3.0, -0.4, 0.0, 2.0])
@pytest.mark.parametrize("variance", [0.01, 1.0, 6.0])
def test_tilted_moments(name, y, mean, variance):
    likelihood = repeated(name, y, 1)
    tilted = likelihood.tilted_moments(np.array([mean]), np.array([variance]))
    expected = tilted_by_summation(likelihood, mean, variance)
    tolerance = 1e-7 if name == "BernoulliProbit" else 5e-3
    assert_allclose(np.ravel(tilted), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("mean", [-40.0, -9.0, 9.0, 40.0])
@pytest.mark.parametrize("variance", [0.1, 4.0, 400.0])
def test_tilted_moments_of_the_probit_are_exact_far_out(y, mean, variance):
    likelihood = repeated("BernoulliProbit", y, 1)
    tilted = likelihood.tilted_moments(np.array([mean]), np.array([variance]))
    assert_allclose(np.ravel(tilted), tilted_by_summation(likelihood, mean, variance), rtol=1e-6, atol=1e-10)


@every_likelihood
def test_observations_outside_the_support_are_named(name):
    for labels, message in CASES[name].outside:
        with pytest.raises(ValueError, match=message):
            make(name, np.array(labels))


@pytest.mark.parametrize("dtype", [bool, int, float, np.int8])
@every_likelihood
def test_labels_of_any_type_mean_the_same(name, dtype):
    y = np.array([0, 1, 1])
    f = np.array([0.2, -0.4, 2.0])
    expected = make(name, y).log_likelihood(f)
    assert make(name, y.astype(dtype)).log_likelihood(f) == expected
