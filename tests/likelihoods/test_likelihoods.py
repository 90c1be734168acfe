"""Every likelihood against arithmetic of 220 decimal digits, to |f| = 40 in both tails.

A likelihood that is exported but not listed in CASES fails the first test; one with parameters is listed several times.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from functools import cache, partial
from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, log_expit, ndtr

from pmgp.core import likelihoods
from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods.impossible import Impossible
from pmgp.core.likelihoods.normal_interval import NormalInterval

DIGITS = 220
# Tested in tests/blocks.
OF_SEVERAL_LATENT_VALUES = {"MultinomialLogit"}
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


def log_one_minus(x: Decimal) -> Decimal:
    """Log(1 - x), by its series where 1 - x would round to one."""
    return -sum(x**k / k for k in range(1, 6)) if x < Decimal("1e-60") else (1 - x).ln()


@cache
def log_normal_distribution(z: Decimal) -> Decimal:
    """Log Phi(z), by the series about zero, and by Laplace's continued fraction in the tails."""
    if abs(z) <= 10:
        return log_normal_distribution_by_series(z)
    if z > 0:
        return log_one_minus(log_normal_distribution(-z).exp())
    fraction = Decimal(0)
    for k in range(300, 0, -1):
        fraction = k / (fraction - z)
    return -z * z / 2 - log_sqrt_two_pi() - (fraction - z).ln()


def log_normal_distribution_by_series(z: Decimal) -> Decimal:
    """From Phi(z) = 1/2 + phi(z) sum_k z^(2k+1) / (2k+1)!!."""
    term, total, k = z, Decimal(0), 1
    while abs(term) > Decimal(10) ** (-DIGITS):
        total += term
        term, k = term * z * z / (k + 2), k + 2
    return (Decimal("0.5") + (-z * z / 2 - log_sqrt_two_pi()).exp() * total).ln()


def exact_ordinal(thresholds: list[float], noise: float, y: int, f: Decimal) -> Decimal:
    limits = [(Decimal(b) - f) / Decimal(noise) for b in thresholds]
    if y == 0:
        return log_normal_distribution(limits[0])
    if y == len(limits):
        return log_normal_distribution(-limits[-1])
    lower, upper = limits[y - 1], limits[y]
    if lower + upper > 0:
        lower, upper = -upper, -lower
    log_upper = log_normal_distribution(upper)
    return log_upper + log_one_minus((log_normal_distribution(lower) - log_upper).exp())


def exact_cox(exposure: float, y: int, f: Decimal) -> Decimal:
    mean = Decimal(exposure) * f.exp()
    return y * (f + Decimal(exposure).ln()) - mean - Decimal(factorial(y)).ln()


def exact_volatility(y: float, f: Decimal) -> Decimal:
    return -log_sqrt_two_pi() - f - Decimal(y) ** 2 * (-2 * f).exp() / 2


@dataclass(frozen=True)
class Case:
    """A likelihood with its parameters, observations it allows, its exact log-density and errors for others.

    `support` has all observations of a likelihood for labels, and some of another. `rounding` is the relative error of
    its tail probabilities, which is that of z^2 at the largest z.
    """

    likelihood: str
    support: tuple[Any, ...]
    log_density: Callable[[Any, Decimal], Decimal]
    outside: tuple[tuple[list[float], str], ...]
    parameters: dict[str, Any] = field(default_factory=dict)
    rounding: float = 1e-13


def cox(exposure: float) -> Case:
    return Case("LogGaussianCox", (0, 2, 7, 40), partial(exact_cox, exposure), BAD_COUNTS, {"exposure": exposure})


def ordinal(thresholds: list[float], noise: float) -> Case:
    labels = range(len(thresholds) + 1)
    parameters = {"thresholds": thresholds, "noise": noise}
    bad = tuple((values, f"from 0 to {len(thresholds)}.*{message}") for values, message in BAD_CATEGORIES)
    rounding = 4e-16 * (42.0 / noise) ** 2
    return Case("OrdinalProbit", tuple(labels), partial(exact_ordinal, thresholds, noise), bad, parameters, rounding)


BAD_LABELS = (([0, 1, 2], "found 2"), ([-1, 1], "found -1"), ([0.5, 1], "0.5"), ([np.nan], "nan"))
BAD_COUNTS = (([0, -3], r"found -3\.0"), ([0.5, 2, -1], r"found -1\.0, 0\.5"), ([np.nan], "nan"), ([np.inf], "inf"))
BAD_CATEGORIES = (([0, 1, 9], "found 9"), ([-1, 0], "found -1"), ([0.5, 1], "0.5"), ([np.nan], "nan"))
NOT_FINITE = (([0.1, np.nan], "found nan"), ([-np.inf, 2], "found -inf"))
CASES = {
    "BernoulliProbit": Case(
        "BernoulliProbit", (0, 1), lambda y, f: log_normal_distribution(f if y else -f), BAD_LABELS
    ),
    "BernoulliLogit": Case("BernoulliLogit", (0, 1), lambda y, f: -(1 + (-f if y else f).exp()).ln(), BAD_LABELS),
    "Cox": cox(1.0),
    "Cox with exposure": cox(2.5),
    "volatility": Case("StochasticVolatility", (0.0, -0.4, 1.3, 25.0), exact_volatility, NOT_FINITE),
    "ordinal": ordinal([-1.0, 0.3, 2.0], 0.7),
    "ordinal with noise": ordinal([-1.0, 0.3, 2.0], 1.3),
    "ordinal with a narrow category": ordinal([0.0, 1e-3, 0.5], 1.0),
    "ordinal with two labels": ordinal([0.4], 1.0),
}
BINARY = {"BernoulliProbit": ndtr, "BernoulliLogit": expit}
LABELS = [name for name in CASES if name.startswith(("Bernoulli", "ordinal"))]
every_likelihood = pytest.mark.parametrize("name", CASES)
every_binary_likelihood = pytest.mark.parametrize("name", BINARY)
every_observation = pytest.mark.parametrize(
    ("name", "y"), [(name, y) for name, case in CASES.items() for y in case.support]
)


def make(name: str, y: np.ndarray):
    case = CASES[name]
    return getattr(likelihoods, case.likelihood)(np.asarray(y), **case.parameters)


def repeated(name: str, y: Any, size: int = POINTS.size):
    """The likelihood of `size` observations that all equal y."""
    return make(name, np.full(size, y))


@cache
def exact(name: str, y: Any, order: int) -> np.ndarray:
    """The log-density at POINTS, its derivative, minus its second or its third one: central differences."""

    def value(f: Decimal) -> Decimal:
        def density(shift: Decimal) -> Decimal:
            return CASES[name].log_density(y, f + shift)

        match order:
            case 0:
                return density(Decimal(0))
            case 1:
                return (density(STEP) - density(-STEP)) / (2 * STEP)
            case 2:
                return (2 * density(Decimal(0)) - density(STEP) - density(-STEP)) / STEP**2
            case _:
                inner, outer = (density(k * STEP) - density(-k * STEP) for k in (1, 2))
                return (outer - 2 * inner) / (2 * STEP**3)

    with localcontext(prec=DIGITS):
        points = [Decimal(float(f)) for f in POINTS]
        values = [value(f) for f in points]
        # A difference as small as the rounding of its terms is zero.
        rounding = [abs(CASES[name].log_density(y, f)) * Decimal(10) ** (5 - DIGITS) / STEP**order for f in points]
        return np.array([float(v) if abs(v) > r else 0.0 for v, r in zip(values, rounding, strict=True)])


def test_every_exported_likelihood_is_tested_here():
    tested = {case.likelihood for case in CASES.values()} | OF_SEVERAL_LATENT_VALUES
    assert tested == set(likelihoods.__all__) - {"Likelihood", "BlockLikelihood"}


def test_the_exact_log_density_is_that_of_known_values():
    with localcontext(prec=DIGITS):
        assert float(log_normal_distribution(Decimal(0)).exp()) == 0.5
        # Abramowitz and Stegun, Table 26.2: -log10 of the upper tail at 5, 10 and 40.
        for z, digits in ((5, 6.54265), (10, 23.11805), (40, 349.43701)):
            tail = -float(log_normal_distribution(Decimal(-z))) / np.log(10.0)
            assert tail == pytest.approx(digits, abs=1e-5)
        for z in (Decimal("-10.5"), Decimal(-12), Decimal("10.5")):
            assert abs(log_normal_distribution(z) / log_normal_distribution_by_series(z) - 1) < Decimal("1e-130")


@every_observation
def test_log_density(name, y):
    assert_allclose(repeated(name, y).log_density(POINTS), exact(name, y, 0), rtol=CASES[name].rounding, atol=1e-300)


@every_observation
def test_gradient_is_the_derivative(name, y):
    assert_allclose(repeated(name, y).gradient(POINTS), exact(name, y, 1), rtol=1e-11, atol=1e-300)


@every_observation
def test_curvature_is_minus_the_second_derivative(name, y):
    assert_allclose(repeated(name, y).curvature(POINTS), exact(name, y, 2), rtol=1e-8, atol=1e-300)


@every_observation
def test_third_derivative(name, y):
    assert_allclose(repeated(name, y).third_derivative(POINTS), exact(name, y, 3), rtol=1e-8, atol=1e-300)


@pytest.mark.parametrize("name", LABELS)
def test_fisher_information_is_the_expected_curvature(name):
    case = CASES[name]
    expected = sum(np.exp(exact(name, y, 0)) * exact(name, y, 2) for y in case.support)
    information = repeated(name, case.support[0]).fisher_information(POINTS)
    assert_allclose(information, expected, rtol=1e-8, atol=1e-300)
    assert np.all(information >= 0.0)


@pytest.mark.parametrize("exposure", [1.0, 2.5])
def test_fisher_information_of_counts_is_the_expected_curvature(exposure):
    f = np.array([-2.0, 0.1, 1.5])
    counts = np.arange(100)
    likelihood = likelihoods.LogGaussianCox(counts, exposure)
    expected = [np.exp(likelihood.log_density(value)) @ likelihood.gradient(value) ** 2 for value in f]
    assert_allclose(likelihoods.LogGaussianCox(np.ones(3), exposure).fisher_information(f), expected, rtol=1e-10)


def test_fisher_information_of_volatility_is_the_expected_curvature():
    y = np.linspace(-60.0, 60.0, 100_001)
    likelihood = likelihoods.StochasticVolatility(y)
    for f in (-0.7, 0.4, 1.5):
        expected = np.exp(likelihood.log_density(f)) @ likelihood.gradient(f) ** 2 * (y[1] - y[0])
        assert_allclose(likelihood.fisher_information(np.array([f])), expected, rtol=1e-10)


@pytest.mark.parametrize("name", LABELS)
def test_probabilities_sum_to_one(name):
    densities = [np.exp(repeated(name, y).log_density(POINTS)) for y in CASES[name].support]
    assert_allclose(sum(densities), 1.0, rtol=1e-14)


def test_predicted_probabilities_of_labels_are_known_in_both_tails():
    mean, variance, thresholds = np.array([-30.0, 30.0]), np.full(2, 1.0), np.array([-2.0, 2.0])
    predicted = likelihoods.OrdinalProbit.probabilities(mean, variance, thresholds)
    limits = np.array([28.0, 32.0]) / np.sqrt(2.0)
    between, beyond = ndtr(-limits[0]) - ndtr(-limits[1]), ndtr(-limits[1])
    assert_allclose(predicted, [[1.0, between, beyond], [beyond, between, 1.0]], rtol=1e-12)


FAR = np.array([-1e8, -2e4, -1e4, -9e3, -500.0, 500.0, 9e3, 1e4, 2e4, 1e8])


@every_observation
def test_derivatives_are_finite_far_beyond_the_tails(name, y):
    likelihood = repeated(name, y, FAR.size)
    assert np.isfinite(likelihood.log_density(FAR)).all()
    assert np.isfinite(likelihood.gradient(FAR)).all()
    assert np.isfinite(likelihood.curvature(FAR)).all()
    assert np.isfinite(likelihood.third_derivative(FAR)).all()
    assert np.isfinite(likelihood.fisher_information(FAR)).all()


@every_observation
def test_the_likelihood_of_many_far_sites_is_finite(name, y):
    """Also of what Newton's method makes of it."""
    f = np.full(1000, 1e6)
    for sign in (-1.0, 1.0):
        likelihood = repeated(name, y, f.size)
        precision, gradient = likelihood.curvature(sign * f), likelihood.gradient(sign * f)
        assert np.isfinite(likelihood.log_likelihood(sign * f))
        assert np.isfinite(np.sum((precision * f + gradient) ** 2))


def test_probit_curvature_tends_to_one_from_below():
    z = -np.geomspace(100.0, 1e7, 60)
    curvature = repeated("BernoulliProbit", 1, z.size).curvature(z)
    assert_allclose(curvature, 1.0 - 1.0 / z**2, rtol=1e-7)
    assert np.all(curvature <= 1.0 + 1e-15)


def test_probit_third_derivative_tends_to_zero_from_above():
    """By the asymptotic series of Mills' ratio."""
    x = np.geomspace(60.0, 1e7, 60)
    series = 2 / x**3 - 24 / x**5 + 300 / x**7 - 4144 / x**9 + 63540 / x**11
    assert_allclose(repeated("BernoulliProbit", 1, x.size).third_derivative(-x), series, rtol=1e-9)
    assert_allclose(repeated("BernoulliProbit", 0, x.size).third_derivative(x), -series, rtol=1e-9)


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_the_variance_within_an_interval_lies_between_zero_and_one(side):
    """At any distance and any width: the curvature of an ordinal label is one less this variance, over noise^2."""
    distance = np.geomspace(0.1, 1e6, 60)[:, None]
    width = np.concatenate([np.geomspace(1e-12, 100.0, 400) * np.ones_like(distance), 1e-3 / distance], axis=1)
    near, far = side * distance, side * (distance + width)
    deficit = NormalInterval(np.minimum(near, far), np.maximum(near, far), width).variance_deficit()
    assert np.all((deficit >= 0.0) & (deficit <= 1.0 + 1e-12))
    # Wide intervals are half-lines, over narrow ones the density is uniform or exponential.
    assert_allclose(deficit[:, 0], 1.0, rtol=1e-12)
    z = np.abs(distance[-1])
    assert_allclose(deficit[-1, 399], 1.0 - 1.0 / z**2, rtol=1e-12)


@pytest.mark.parametrize("parameter", ["exposure", "noise"])
def test_each_site_can_have_its_own_parameter(parameter, rng):
    f, value = rng.normal(size=4), np.array([0.3, 1.0, 2.0, 0.8])
    y = np.array([1, 0, 2, 1])

    def likelihood(y: np.ndarray, value: Any):
        if parameter == "exposure":
            return likelihoods.LogGaussianCox(y, value)
        return likelihoods.OrdinalProbit(y, [0.0, 0.7], value)

    together = likelihood(y, value)
    for method in ("log_density", "gradient", "curvature", "third_derivative", "fisher_information"):
        apart = [getattr(likelihood(y[i : i + 1], value[i]), method)(f[i : i + 1])[0] for i in range(4)]
        assert_allclose(getattr(together, method)(f), apart, rtol=1e-13)


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
    expected = BINARY[name](mean[:, None] + np.sqrt(variance) * z) @ density
    probability = getattr(likelihoods, name).probability(mean, np.full_like(mean, variance))
    return np.abs(probability - expected).max()


@every_binary_likelihood
@pytest.mark.parametrize("variance", [1e-4, 0.3, 2.0, 9.0])
def test_probability_is_the_expectation_over_f(name, variance):
    assert probability_error(name, variance) < 1e-6


@every_binary_likelihood
@pytest.mark.parametrize("variance", [50.0, 400.0])
def test_probability_at_the_variances_of_wide_priors(name, variance):
    assert probability_error(name, variance) < 1e-6


@pytest.mark.parametrize(("mean", "variance"), [(-45.0, 4.1), (-80.0, 9.0), (-300.0, 400.0)])
def test_small_probabilities_are_right_too(mean, variance):
    z = np.linspace(-60.0, 60.0, 400_001)
    logs = -0.5 * z**2
    expected = np.logaddexp.reduce(logs + log_expit(mean + np.sqrt(variance) * z)) - np.logaddexp.reduce(logs)
    found = likelihoods.BernoulliLogit.probability(np.array([mean]), np.array([variance]))
    assert np.log(found) == pytest.approx(expected, abs=1e-6)


@every_binary_likelihood
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
def test_probability_keeps_the_shape(name, shape):
    probability = getattr(likelihoods, name).probability
    mean, variance = np.full(shape, 0.7), np.full(shape, 9.0)
    one = probability(np.array([0.7]), np.array([9.0]))[0]
    assert_allclose(probability(mean, variance), np.full(shape, one), rtol=1e-12)


@every_binary_likelihood
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
@pytest.mark.parametrize("mean", [-3.0, 2.0])
@pytest.mark.parametrize("variance", [0.01, 1.0, 6.0])
def test_tilted_moments(name, y, mean, variance):
    """About normals that are near, as they are called: sites may be far more precise than N(mean, variance)."""
    likelihood = repeated(name, y, 1)
    expected = tilted_by_summation(likelihood, mean, variance)
    near = (np.array([expected[0] + 0.2 * np.sqrt(expected[1])]), np.array([1.2 * expected[1]]))
    tilted = likelihood.tilted_moments(np.array([mean]), np.array([variance]), near)
    tolerance = 1e-7 if name == "BernoulliProbit" else 5e-3
    assert_allclose((tilted[0] - expected[0]) / np.sqrt(expected[1]), 0.0, atol=tolerance)
    assert_allclose(tilted[1], expected[1], rtol=tolerance)


@pytest.mark.parametrize(("name", "y"), [(name, y) for name in BINARY for y in (0, 1)])
@pytest.mark.parametrize("mean", [-3.0, -0.4, 0.0, 2.0])
@pytest.mark.parametrize("variance", [0.01, 1.0, 6.0])
def test_tilted_moments_of_labels_by_nodes_of_the_normal_itself(name, y, mean, variance):
    likelihood = repeated(name, y, 1)
    tilted = likelihood.tilted_moments(np.array([mean]), np.array([variance]))
    expected = tilted_by_summation(likelihood, mean, variance)
    tolerance = 1e-7 if name == "BernoulliProbit" else 5e-3
    assert_allclose(np.ravel(tilted), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("y", [0, 1, 2])
@pytest.mark.parametrize("noise", [0.01, 0.3, 3.0])
@pytest.mark.parametrize(("mean", "variance"), [(0.2, 0.1), (0.8, 4.0), (-3.0, 4.0), (-9.0, 0.1), (2.0, 400.0)])
def test_tilted_moments_of_ordered_labels_are_exact(y, noise, mean, variance):
    likelihood = likelihoods.OrdinalProbit(np.array([y]), np.array([0.0, 0.5]), noise)
    tilted = likelihood.tilted_moments(np.array([mean]), np.array([variance]))
    assert_allclose(np.ravel(tilted), tilted_by_summation(likelihood, mean, variance), rtol=1e-5, atol=1e-7)


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


BAD_PARAMETERS = (
    ("LogGaussianCox", {"exposure": 0.0}, r"exposure must be positive and finite, found 0\.0"),
    ("LogGaussianCox", {"exposure": [1.0, -2.0, np.nan]}, r"exposure must be positive .*found -2\.0, nan"),
    ("LogGaussianCox", {"exposure": np.inf}, "exposure must be positive and finite, found inf"),
    ("LogGaussianCox", {"exposure": [1.0, 2.0]}, r"exposure has shape \(2,\), but there are 3 observations"),
    ("OrdinalProbit", {"thresholds": [0.0, 1.0], "noise": -0.5}, r"noise must be positive .*found -0\.5"),
    ("OrdinalProbit", {"thresholds": [0.0, 1.0], "noise": [1.0, 1.0]}, r"noise has shape \(2,\), but there are 3"),
    ("OrdinalProbit", {"thresholds": [1.0, 0.0]}, r"increase strictly, found 1\.0, 0\.0; sort"),
    ("OrdinalProbit", {"thresholds": [0.0, 0.0]}, r"increase strictly, found 0\.0, 0\.0; .*ordered"),
    ("OrdinalProbit", {"thresholds": [0.0, np.nan]}, r"finite and increase strictly, found 0\.0, nan"),
    ("OrdinalProbit", {"thresholds": [-np.inf, 0.0]}, "leave out infinite ones"),
    ("OrdinalProbit", {"thresholds": []}, r"at least one number, not of shape \(0,\)"),
    ("OrdinalProbit", {"thresholds": 0.3}, r"at least one number, not of shape \(\)"),
    ("OrdinalProbit", {"thresholds": [0.5]}, r"from 0 to 1 \(one more label than thresholds\), found 2;"),
)


@pytest.mark.parametrize(("likelihood", "parameters", "message"), BAD_PARAMETERS)
def test_parameters_outside_their_domain_are_named(likelihood, parameters, message):
    with pytest.raises(ValueError, match=message):
        getattr(likelihoods, likelihood)(np.array([0, 1, 2]), **parameters)


def test_an_impossible_likelihood_is_rejected_before_its_derivatives_matter():
    likelihood = Impossible("thresholds out of order")
    f = np.zeros((3, 4))
    assert np.array_equal(likelihood.log_likelihood(f), np.full(3, -np.inf))
    assert likelihood.log_likelihood(f[0]) == -np.inf
    for method in (likelihood.gradient, likelihood.curvature, likelihood.third_derivative):
        assert np.array_equal(method(f[0]), np.zeros(4))
    prior = DensePrior(np.zeros(4), np.asfortranarray(np.eye(4)))
    for start in (None, np.ones(4)):
        approximation = Laplace().fit(prior, likelihood, start)
        assert approximation.log_evidence == -np.inf
        assert np.isfinite(Laplace().refine(approximation, likelihood).mean).all()


@every_observation
def test_derivatives_at_once_are_the_two(name, y):
    likelihood = repeated(name, y)
    gradient, curvature = likelihood.derivatives(POINTS)
    assert_allclose(gradient, likelihood.gradient(POINTS), rtol=1e-14)
    assert_allclose(curvature, likelihood.curvature(POINTS), rtol=1e-14)


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize("noise", [1.0, 0.1, 30.0, 1e4, 1e7])
def test_the_sum_over_ordinal_labels_is_as_accurate_as_each_of_them(scale, noise, rng):
    """The plain difference of distribution functions, and what stands in for it where that cancels."""
    y, f = rng.integers(0, 4, 300), scale * rng.normal(size=(5, 300))
    f[0, 3] = 40.0
    likelihood = likelihoods.OrdinalProbit(y, np.array([-1.0, 0.2, 0.9]), noise)
    each = likelihood.log_density(f)
    assert_allclose(likelihood.log_likelihood(f), each.sum(axis=-1), rtol=1e-14, atol=300 * 2e-13)
    single = likelihoods.OrdinalProbit(y[:1], np.array([-1.0, 0.2, 0.9]), noise)
    for value in (-40.0, -6.0, 0.0, 1.0, 9.0, 40.0):
        assert_allclose(
            single.log_likelihood(np.array([value])), single.log_density(np.array([value]))[0], rtol=2e-13, atol=2e-13
        )


def test_the_sum_over_ordinal_labels_of_what_is_not_a_number():
    likelihood = likelihoods.OrdinalProbit(np.array([0, 1]), np.array([0.0]))
    assert np.isnan(likelihood.log_likelihood(np.array([np.nan, 0.0])))
