"""Orthant probabilities against closed forms, quadrature, filters and SciPy; standard errors that hold."""

from __future__ import annotations

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.stats import multivariate_normal, truncnorm

import pmgp
from pmgp.core.orthants import METHODS, sites
from tests.orthants import truths
from tests.orthants.truths import Known

UNBIASED = [method for method in METHODS if method != "soft"]
SEQUENTIAL = ["ep", "ghk", "tilted"]
SMALL = {
    "two": truths.two_or_three(-0.7),
    "three": truths.two_or_three(0.3, -0.4, 0.5),
    "independent": truths.independent(20),
    "equicorrelated 8": truths.equicorrelated(8),
    "constant 6, 3": truths.constant_process(6, 3),
    "factor 10": truths.one_factor(10),
    "blocks": truths.blocks(truths.equicorrelated(4), truths.two_or_three(-0.5), truths.one_factor(5, 1)),
}
LARGE = {
    "equicorrelated 200": partial(truths.equicorrelated, 200),
    "constant 60, 40": partial(truths.constant_process, 60, 40),
    "constant 500, 500": partial(truths.constant_process, 500, 500),
    "factor 500": partial(truths.one_factor, 500),
    "line 300": partial(truths.line, 300, 4.0),
    "line 300, variance 50": partial(truths.line, 300, 50.0),
}


def found(known: Known, method: str = "ep", draws: int = 1000, seed: int = 1):
    return pmgp.orthants.log_probability(
        known.lower, known.upper, 0.0, known.covariance, method=method, draws=draws, random_seed=seed
    )


@pytest.mark.parametrize("method", UNBIASED)
@pytest.mark.parametrize("name", SMALL)
def test_small_problems_are_known(name, method):
    known = SMALL[name]
    result = found(known, method, 20_000)
    assert abs(result.log_probability - known.log_probability) < 4.0 * result.standard_error + 1e-9
    assert result.standard_error < 0.15
    assert result.unbiased


@pytest.mark.parametrize("name", LARGE)
def test_large_problems_are_known(name):
    known = LARGE[name]()
    result = found(known)
    assert abs(result.log_probability - known.log_probability) < 4.0 * result.standard_error + 1e-6
    assert result.standard_error < 0.03


@pytest.mark.parametrize(("method", "bound"), [("tilted", 0.03), ("ghk", 0.3), ("smc", 0.3), ("hard", 0.6)])
def test_the_other_methods_do_larger_problems_too(method, bound):
    known = truths.line(100, 2.0)
    result = found(known, method, 4000)
    assert abs(result.log_probability - known.log_probability) < 4.0 * result.standard_error
    assert result.standard_error < bound


def test_a_thousand_labels_of_the_articles_second_table():
    """K = x x' of one feature, 800 labels: quadrature agrees to .01 nats with 200 draws."""
    rng = np.random.default_rng(0)
    y = rng.uniform(size=800) < 0.5
    x = np.where(y, rng.normal(1.0, 0.75, 800), rng.normal(0.0, 1.0, 800))
    slopes = np.where(y, x, -x)
    u = np.linspace(-12.0, 12.0, 24_001)
    terms = truths.norm.logpdf(u)
    for slope in slopes:
        terms = terms + truths.log_ndtr(slope * u)
    truth = float(truths.logsumexp(terms) + np.log(u[1] - u[0]))
    result = found(Known(0.0, np.inf, np.outer(slopes, slopes) + np.eye(800), truth), draws=200)
    assert result.log_probability == pytest.approx(truth, abs=0.01)


def general_problem(n: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Limits of all kinds, a mean, and variances that differ."""
    rng = np.random.default_rng(8)
    factor = rng.normal(size=(n, n))
    covariance = factor @ factor.T + 0.1 * np.eye(n)
    mean = rng.normal(size=n)
    lower = mean + np.array([-np.inf, -1.0, 0.2, -np.inf])[:n]
    upper = mean + np.array([0.5, 2.0, np.inf, np.inf])[:n]
    return lower, upper, mean, covariance


@pytest.mark.parametrize("method", UNBIASED)
def test_scipy_agrees_on_general_limits(method):
    lower, upper, mean, covariance = general_problem()
    truth = multivariate_normal.logcdf(
        upper, mean, covariance, lower_limit=lower, maxpts=400_000, abseps=1e-8, releps=1e-8
    )
    result = pmgp.orthants.log_probability(lower, upper, mean, covariance, method=method, draws=20_000, random_seed=2)
    assert abs(result.log_probability - truth) < 4.0 * result.standard_error + 1e-5


@pytest.mark.parametrize("method", UNBIASED)
def test_weighted_draws_are_the_truncated_gaussian(method):
    """Means and second moments against a lattice of the unrestricted Gaussian, that is against rejection."""
    lower, upper, mean, covariance = general_problem()
    result = pmgp.orthants.log_probability(lower, upper, mean, covariance, method=method, draws=40_000, random_seed=3)
    assert (result.draws >= lower).all()
    assert (result.draws <= upper).all()
    plain = np.random.default_rng(1).multivariate_normal(mean, covariance, 400_000)
    kept = plain[((plain >= lower) & (plain <= upper)).all(axis=1)]
    weights = np.exp(result.log_weights - result.log_weights.max())
    weights /= weights.sum()
    for power in (1, 2):
        target = np.power(kept, power)
        error = np.sqrt(target.var(axis=0) * (1.0 / len(kept) + 8.0 / result.effective_size))
        assert np.all(np.abs(weights @ np.power(result.draws, power) - target.mean(axis=0)) < 4.0 * error)


@pytest.mark.parametrize("method", UNBIASED)
def test_standard_errors_cover(method):
    """In 68 of 100 repetitions, give or take three standard deviations of a binomial and the unevenness of t."""
    known = truths.equicorrelated(6)
    results = [found(known, method, 400, seed) for seed in range(100)]
    covered = sum(abs(one.log_probability - known.log_probability) < one.standard_error for one in results)
    assert 50 < covered < 84


def test_labels_sum_to_one():
    rng = np.random.default_rng(5)
    x = rng.normal(size=6)
    covariance = 3.0 * np.exp(-0.5 * np.square(x[:, None] - x))
    total, variance = 0.0, 0.0
    for signs in itertools.product([-1.0, 1.0], repeat=6):
        result = found(Known(0.0, np.inf, np.outer(signs, signs) * covariance + np.eye(6), np.nan), draws=200)
        total += np.exp(result.log_probability)
        variance += (np.exp(result.log_probability) * result.standard_error) ** 2
    assert abs(total - 1.0) < 4.0 * np.sqrt(variance)
    assert variance < 1e-6


def test_signs_and_order_of_the_variables_do_not_matter():
    lower, upper, mean, covariance = general_problem()
    first = pmgp.orthants.log_probability(lower, upper, mean, covariance, draws=20_000, random_seed=1)
    order = np.array([2, 0, 3, 1])
    second = pmgp.orthants.log_probability(
        -upper[order], -lower[order], -mean[order], covariance[np.ix_(order, order)], draws=20_000, random_seed=2
    )
    bound = 4.0 * np.hypot(first.standard_error, second.standard_error)
    assert abs(first.log_probability - second.log_probability) < bound


def test_a_seed_gives_the_same_estimate_again():
    known = SMALL["factor 10"]
    assert found(known).log_probability == found(known).log_probability
    assert found(known).log_probability != found(known, seed=2).log_probability


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("distance", [5.0, 40.0])
def test_far_limits(method, distance):
    """Independent variables, one of them far out: the logarithm of a tail."""
    truth = float(truths.log_ndtr(-distance) + np.log(0.5))
    result = pmgp.orthants.log_probability(
        [distance, 0.0], np.inf, 0.0, np.eye(2), method=method, draws=100, random_seed=1
    )
    if method in ("hard", "soft"):
        assert result.log_probability == -np.inf
        assert result.standard_error == np.inf
    else:
        assert result.log_probability == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("method", SEQUENTIAL)
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_variances_of_any_size(method, scale):
    known = truths.equicorrelated(5)
    result = pmgp.orthants.log_probability(
        0.0, np.inf, 0.0, scale * known.covariance, method=method, draws=4000, random_seed=1
    )
    assert abs(result.log_probability - known.log_probability) < 4.0 * result.standard_error


def test_probit_labels_far_from_their_process():
    """A latent value of -40 with the label of +40, and a variance of a million: finite, and no NaN."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=30)
    covariance = 1e6 * np.exp(-0.5 * np.square(x[:, None] - x) / 0.2**2) + np.eye(30)
    result = pmgp.orthants.log_probability(0.0, np.inf, np.full(30, -40.0), covariance, random_seed=1)
    assert np.isfinite(result.log_probability)
    assert np.isfinite(result.standard_error)


@pytest.mark.parametrize("method", SEQUENTIAL)
@pytest.mark.parametrize("width", [1e-3, 1e-9])
def test_narrow_intervals(method, width):
    """The density at a point, times the width, times the conditional probability of the other variable."""
    result = pmgp.orthants.log_probability(
        [0.5, 0.3], [0.5 + width, np.inf], 0.0, [[1.0, 0.6], [0.6, 1.0]], method=method, draws=200, random_seed=1
    )
    truth = np.log(width) + truths.norm.logpdf(0.5 + 0.5 * width) + truths.log_ndtr(0.0)
    assert result.log_probability == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize(("smallest", "right"), [(sites.SMALLEST_SHARE, True), (1e-6, False)])
def test_narrow_intervals_of_a_large_variance(smallest, right, monkeypatch):
    """Sites as narrow as the intervals would leave the recursion no digits."""
    monkeypatch.setattr(sites, "SMALLEST_SHARE", smallest)
    x, width = np.linspace(0.0, 1.0, 20), 0.01
    covariance = 1e6 * np.exp(-0.5 * np.square((x[:, None] - x) / 0.2)) + 2.0 * np.eye(20)
    values = np.linalg.cholesky(covariance) @ np.random.default_rng(1).normal(size=20)
    lower = width * np.floor(values / width)
    result = pmgp.orthants.log_probability(lower, lower + width, 0.0, covariance, draws=400, random_seed=1)
    density = multivariate_normal(np.zeros(20), covariance).logpdf(lower + 0.5 * width)
    error = abs(result.log_probability - density - 20 * np.log(width))
    assert error < 0.05 if right else error > 1.0


@pytest.mark.parametrize("method", METHODS)
def test_equal_limits_have_no_probability(method):
    result = pmgp.orthants.log_probability([0.0, 0.3], [np.inf, 0.3], 0.0, np.eye(2), method=method)
    assert result.log_probability == -np.inf
    assert result.standard_error == 0.0
    assert result.draws.shape == (0, 2)


@pytest.mark.parametrize("method", METHODS)
def test_without_limits_the_probability_is_one(method):
    covariance = np.array([[2.0, 1.0], [1.0, 3.0]])
    result = pmgp.orthants.log_probability(-np.inf, np.inf, [1.0, 2.0], covariance, method=method, random_seed=1)
    assert result.log_probability == pytest.approx(0.0, abs=1e-12)
    assert np.abs(np.cov(result.draws.T) - covariance).max() < 0.6


@pytest.mark.parametrize("method", UNBIASED)
def test_singular_covariances(method):
    """The third variable is the sum of the others, the fourth the first one again, the fifth a constant."""
    parts = np.array([[1.0, 0.0], [0.3, 1.0], [1.3, 1.0], [1.0, 0.0], [0.0, 0.0]])
    lower, upper = np.array([-0.5, -1.0, 0.0, -0.2, 0.9]), np.array([2.0, np.inf, 1.0, np.inf, 1.1])
    mean = np.array([0.0, 0.0, 0.0, 0.0, 1.0])
    plain = mean + np.random.default_rng(1).normal(size=(1_000_000, 2)) @ parts.T
    share = ((plain >= lower) & (plain <= upper)).all(axis=1).mean()
    result = pmgp.orthants.log_probability(
        lower, upper, mean, parts @ parts.T, method=method, draws=40_000, random_seed=2
    )
    error = np.hypot(result.standard_error, np.sqrt((1.0 - share) / share / 1e6))
    assert abs(result.log_probability - np.log(share)) < 4.0 * error
    weighted = result.draws[result.log_weights > -np.inf]
    assert np.abs(weighted[:, 2] - weighted[:, 0] - weighted[:, 1]).max() < 1e-6
    assert ((weighted >= lower - 1e-9) & (weighted <= upper + 1e-9)).all()


@pytest.mark.parametrize("method", SEQUENTIAL)
def test_nearly_singular_covariances(method):
    """A smooth process without noise: its matrix has rank ten to working precision, with eigenvalues below zero.

    The truth is that of the few eigenvectors that matter, by rejection.
    """
    x = np.linspace(0.0, 3.0, 60)
    covariance = np.exp(-0.5 * np.square(x[:, None] - x))
    values, vectors = np.linalg.eigh(covariance)
    assert values[0] < 0.0
    root = vectors[:, -9:] * np.sqrt(values[-9:])
    draws = np.random.default_rng(1).normal(size=(200_000, 9)) @ root.T
    share = (draws >= -0.3).all(axis=1).mean()
    result = pmgp.orthants.log_probability(-0.3, np.inf, 0.0, covariance, method=method, draws=4000, random_seed=1)
    error = np.hypot(result.standard_error, np.sqrt((1.0 - share) / share / 200_000))
    assert abs(result.log_probability - np.log(share)) < 4.0 * error
    assert result.standard_error < 0.1


@pytest.mark.parametrize("method", METHODS)
def test_limits_that_contradict_each_other_are_extinction(method):
    """v and -v are both above one: no draw survives, and the standard error says that nothing is known."""
    result = pmgp.orthants.log_probability(
        1.0, np.inf, 0.0, [[1.0, -1.0], [-1.0, 1.0]], method=method, draws=100, random_seed=1
    )
    assert result.log_probability == -np.inf
    assert result.standard_error == np.inf
    assert result.effective_size == 0.0


def test_a_constant_outside_of_its_limits():
    result = pmgp.orthants.log_probability([0.0, 2.0], np.inf, [0.0, 1.0], np.diag([1.0, 0.0]))
    assert (result.log_probability, result.standard_error) == (-np.inf, 0.0)


def test_one_variable_is_a_truncated_normal():
    result = pmgp.orthants.log_probability(1.0, 3.0, 0.5, 4.0, draws=20_000, random_seed=1)
    known = truncnorm(0.25, 1.25, 0.5, 2.0)
    assert result.log_probability == pytest.approx(np.log(np.diff(truths.norm.cdf([0.25, 1.25])))[()].item())
    assert result.standard_error < 1e-9
    assert result.draws.mean() == pytest.approx(known.mean(), abs=4.0 * known.std() / np.sqrt(20_000))


TWO = np.eye(2)
BAD = {
    "not symmetric": ((0.0, 1.0, 0.0, [[1.0, 0.5], [0.1, 1.0]]), r"symmetric.*\(0, 1\) is 0.5"),
    "not symmetric beside a large variance": (
        (0.0, np.inf, 0.0, [[1e10, 0.0, 0.0], [0.0, 1.0, 0.9], [0.0, 0.0, 1.0]]),
        r"symmetric.*\(1, 2\) is 0.9",
    ),
    "masked covariance": (
        (0.0, 1.0, 0.0, np.ma.masked_array(TWO, [[0, 1], [1, 0]])),
        "covariance has masked values, 2",
    ),
    "masked limit": ((np.ma.masked_array([0.0, 0.0], [1, 0]), 1.0, 0.0, TWO), "lower has masked values"),
    "indefinite": ((0.0, 1.0, 0.0, [[1.0, 2.0], [2.0, 1.0]]), "semidefinite.*eigenvalue -1"),
    "negative variance": ((0.0, 1.0, 0.0, -TWO), "variance -1.0 at 0"),
    "hidden indefinite": ((0.0, 1.0, 0.0, [[0.0, 0.5], [0.5, 1.0]]), "semidefinite"),
    "crossed": (([0.0, 2.0], 1.0, 0.0, TWO), r"lower\[1\] = 2.0 and upper\[1\] = 1.0"),
    "NaN limit": (([0.0, np.nan], 1.0, 0.0, TWO), "lower must not be NaN, found nan at 1"),
    "NaN covariance": ((0.0, 1.0, 0.0, [[1.0, np.nan], [np.nan, 1.0]]), r"covariance must be finite.*\(0, 1\)"),
    "infinite mean": ((0.0, 1.0, np.inf, TWO), "mean must be finite, found inf at 0"),
    "long limits": (([0.0] * 3, 1.0, 0.0, TWO), r"lower has shape \(3,\)"),
    "matrix of limits": ((0.0, np.zeros((2, 2)), 0.0, TWO), r"upper has shape \(2, 2\)"),
    "not square": ((0.0, 1.0, 0.0, np.ones((2, 3))), r"square matrix, not of shape \(2, 3\)"),
    "empty": ((0.0, 1.0, 0.0, np.ones((0, 0))), r"square matrix, not of shape \(0, 0\)"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        pmgp.orthants.log_probability(*arguments)


@pytest.mark.parametrize("draws", [0, 2, 7, 2.0, True])
def test_draws_must_be_an_even_number(draws):
    with pytest.raises(ValueError, match=f"draws must be an even number, at least 4, not {draws}"):
        pmgp.orthants.log_probability(0.0, 1.0, 0.0, TWO, draws=draws)


def test_resampled_particles_need_populations():
    with pytest.raises(ValueError, match="at least 20, not 10"):
        pmgp.orthants.log_probability(0.0, 1.0, 0.0, TWO, method="hard", draws=10)


def test_unknown_methods_are_named():
    with pytest.raises(ValueError, match=r"unknown method 'genz'; known are ep, ghk, tilted, smc, hard, soft"):
        pmgp.orthants.log_probability(0.0, 1.0, 0.0, TWO, method="genz")


@pytest.mark.parametrize("shape", [(50,), (49, 2)])
def test_expectations_need_a_row_for_each_draw(shape):
    found = pmgp.orthants.log_probability(0.0, 1.0, 0.0, TWO, draws=50, random_seed=1)
    with pytest.raises(ValueError, match="values must have a row for each of the 50 draws"):
        found.expectation(np.zeros(shape))
