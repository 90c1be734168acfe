"""Each compiled kernel against its NumPy version, which is called alike."""

from __future__ import annotations

from fractions import Fraction
from inspect import signature
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import cho_solve
from scipy.special import log_ndtr, ndtr

from pmgp.core.adaptation import mode_prediction
from pmgp.core.numerics.compiled import importance, moments, normal, ordinal, prediction, probit, renewal, sites, tilted
from pmgp.core.numerics.quadrature import RESOLUTION, normal_rule
from pmgp.interface.covariance import packed
from tests.kernels.references import REFERENCES

PRECISION = 1e-12
PAIRS = {
    "unpack": (sites.unpack, REFERENCES["sites.unpack"]),
    "factorize": (sites.factorize, REFERENCES["sites.factorize"]),
    "condition": (sites.condition, REFERENCES["sites.condition"]),
    "deviations": (sites.deviations, REFERENCES["sites.deviations"]),
    "log_normalizer": (sites.log_normalizer, REFERENCES["sites.log_normalizer"]),
    "log_sites": (sites.log_sites, REFERENCES["sites.log_sites"]),
    "inverse_diagonal": (moments.inverse_diagonal, REFERENCES["moments.inverse_diagonal"]),
    "cavities": (moments.cavities, REFERENCES["moments.cavities"]),
    "matched": (moments.matched, REFERENCES["moments.matched"]),
    "probit tilted_moments": (probit.tilted_moments, REFERENCES["probit.tilted_moments"]),
    "probit derivatives": (probit.derivatives, REFERENCES["probit.derivatives"]),
    "probit log_ratios": (probit.log_ratios, REFERENCES["probit.log_ratios"]),
    "placed": (tilted.placed, REFERENCES["tilted.placed"]),
    "tilted moments": (tilted.moments, REFERENCES["tilted.moments"]),
    "ordinal log_ratios": (ordinal.log_ratios, REFERENCES["ordinal.log_ratios"]),
    "normalized": (importance.normalized, REFERENCES["importance.normalized"]),
    "picked": (renewal.picked, REFERENCES["renewal.picked"]),
    "features": (prediction.features, REFERENCES["prediction.features"]),
}
# Scale of K, its jitter relative to that, and the largest precision of a site: up to conditions of B of 1e12.
CONDITIONS = [(1.0, 1e-2, 1.0), (1e4, 1e-8, 1e2), (1e6, 1e-10, 1e6)]
SIZES = (1, 2, 16, 17, 64, 100, 257)
TAILS = np.concatenate([np.linspace(-40.0, 40.0, 401), [-5.0, -30.0, -37.5, 0.0]])


def both(name, outputs, *arguments):
    """What the kernel returns and the arrays that it writes, which come last, and those of its NumPy version."""
    results = []
    for function in PAIRS[name]:
        written = [output.copy() for output in outputs]
        results += [function(*arguments, *written), written]
    return results


def close(one, other, scale=None):
    """Relative to the largest element, or to a scale that is given, where sums may cancel."""
    size = np.abs(other).max(initial=0.0) if scale is None else scale
    assert_allclose(one, other, rtol=PRECISION, atol=PRECISION * size)


def problem(n, condition, seed=0):
    """A process on inputs of which half are there twice, and sites."""
    rng = np.random.default_rng(seed)
    scale, jitter, largest = condition
    x = rng.normal(size=(n, 2))
    x[n // 2 :] = x[: n - n // 2]
    covariance = scale * (np.exp(-0.5 * np.square(x[:, None] - x).sum(axis=-1)) + jitter * np.eye(n))
    precision = rng.uniform(0.01, largest, n)
    return covariance, rng.normal(size=n), precision * rng.normal(size=n), precision


def factor_of(covariance, precision):
    """Transposed, with what must not be read beside it."""
    root = np.sqrt(precision)
    factor = np.linalg.cholesky(np.eye(len(root)) + root[:, None] * covariance * root)
    return np.ascontiguousarray(factor.T + np.tril(np.full_like(factor, np.nan), -1))


@pytest.mark.parametrize("name", PAIRS)
def test_kernels_are_called_as_their_numpy_versions(name):
    kernel, reference = (list(signature(one).parameters) for one in PAIRS[name])
    assert len(kernel) == len(reference)


@pytest.mark.parametrize("n", SIZES)
def test_factors(n):
    """Bit for bit, and what stands beside the triangle is not read."""
    covariance = np.triu(problem(n, CONDITIONS[0])[0]) + np.tril(np.full((n, n), np.nan), -1)
    one, written, other, reference = both("factorize", (np.empty((n, n)),), covariance)
    assert one == other == 0
    assert_array_equal(np.triu(written[0]), np.triu(reference[0]))


@pytest.mark.parametrize(("place", "value"), [(0, -1.0), (3, -1.0), (7, np.nan), (9, np.inf)])
def test_factors_of_what_is_no_covariance(place, value):
    """The first minor that is not positive, or not finite."""
    covariance = np.eye(10)
    covariance[place, place] = value
    one, _, other, _ = both("factorize", (np.empty((10, 10)),), covariance)
    assert one == other == place + 1


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("size", [1, 30, 10**6])
@pytest.mark.parametrize("n", SIZES)
def test_packed_triangles(n, size, mirrored):
    """Parts of any size, rows one after another."""
    matrix = np.random.default_rng(0).normal(size=(n, n))
    whole, found = packed.packed(matrix), [np.zeros((n, n)), np.zeros((n, n))]
    parts = packed.parts(n, size)
    assert parts[-1][1].stop == n * (n + 1) // 2
    for first, part in parts:
        for function, upper in zip(PAIRS["unpack"], found, strict=True):
            function(whole[0, part], first, mirrored, upper)
    for upper in found:
        assert_array_equal(upper, np.triu(matrix) + mirrored * np.triu(matrix, 1).T)


@pytest.mark.parametrize("dimension", [1, 2, 3, 11])
def test_monomials(dimension):
    """Bit for bit: a start that is predicted depends on theta alone."""
    rng, factors = np.random.default_rng(1), mode_prediction._monomials(dimension)
    for spread in (1.0, 10.0):
        theta, location = spread * rng.normal(size=(2, dimension))
        arguments = theta, location, rng.uniform(0.5, 2.0, dimension), 6.0, factors
        _, written, _, reference = both("features", (np.empty(len(factors)),), *arguments)
        assert_array_equal(written[0], reference[0])


@pytest.mark.parametrize("draws", [1, 2, 64])
def test_picks(draws):
    """At the bounds of each weight too, and above a sum that ends below one."""
    weights = np.random.default_rng(2).dirichlet(np.full(draws, 0.3))
    bounds = weights.cumsum()
    for number in [0.0, *bounds, *np.nextafter(bounds, 0.0), *np.nextafter(bounds, 2.0), np.nextafter(1.0, 0.0)]:
        one, _, other, _ = both("picked", (), weights, number)
        assert one == other


@pytest.mark.parametrize(("n", "condition"), [*product(SIZES, CONDITIONS)])
def test_conditioning(n, condition):
    covariance, mean, linear, precision = problem(n, condition)
    outputs = np.zeros((n, n)), np.empty(n), np.empty((2, n))
    one, written, other, reference = both("condition", outputs, covariance, mean, linear, precision)
    assert one == pytest.approx(other, rel=PRECISION)
    close(np.triu(written[0]), np.triu(reference[0]))
    close(written[1], reference[1])


def test_a_vague_site_beside_a_sharp_one_keeps_its_digits():
    """In exact arithmetic: b / w of the vague site is so large that f is not a difference from it."""
    a, m, b, w = 0.5, 0.25, np.array([3e7, 5.0]), np.array([1e8, 1e-10])
    covariance = np.array([[1.0, a], [a, 1.0]])
    y = [Fraction(one) / Fraction(other) - Fraction(m) for one, other in zip(b, w, strict=True)]
    first, second = (1 + 1 / Fraction(one) for one in w)
    weights = first * second - Fraction(a) ** 2
    alpha = (second * y[0] - Fraction(a) * y[1]) / weights, (first * y[1] - Fraction(a) * y[0]) / weights
    expected = [float(m + alpha[i] + Fraction(a) * alpha[1 - i]) for i in (0, 1)]
    for function in PAIRS["condition"]:
        mean = np.empty(2)
        function(covariance, np.full(2, m), b, w, np.zeros((2, 2)), mean, np.empty((2, 2)))
        assert_allclose(mean, expected, rtol=1e-13)


@pytest.mark.parametrize("break_it", [lambda k: k - 100.0 * np.eye(len(k)), lambda k: np.nan * k, lambda k: np.inf * k])
def test_conditioning_on_what_is_no_covariance(break_it):
    covariance, mean, linear, precision = problem(20, CONDITIONS[0])
    outputs = np.zeros((20, 20)), np.empty(20), np.empty((2, 20))
    for function in PAIRS["condition"]:
        with np.errstate(all="ignore"):
            assert not np.isfinite(function(break_it(covariance), mean, linear, precision, *outputs))


@pytest.mark.parametrize(("n", "condition", "size"), [*product(SIZES, CONDITIONS, (1, 2, 9))])
def test_draws(n, condition, size):
    covariance, _, _, precision = problem(n, condition)
    prior_factor = np.ascontiguousarray(np.linalg.cholesky(covariance).T)
    normals = np.random.default_rng(1).normal(size=(2, size, n))
    outputs = normals[0], normals[1], np.empty((size, n))
    arguments = prior_factor, covariance, factor_of(covariance, precision), precision
    _, written, _, reference = both("deviations", outputs, *arguments)
    # They are what the sites leave of draws from the prior.
    close(written[2], reference[2], np.sqrt(covariance[0, 0]))


@pytest.mark.parametrize("least", [1e-12, 1e-9, 1e-7, 1e-3])
@pytest.mark.parametrize("size", [1, 5])
def test_draws_beside_sites_that_say_little(size, least):
    """Against the product with K, which they are made by only where they must be."""
    covariance, _, _, precision = problem(60, CONDITIONS[0])
    precision[::3] = least
    normals = np.random.default_rng(1).normal(size=(2, size, 60))
    factor, root = factor_of(covariance, precision), np.sqrt(precision)
    prior_factor = np.ascontiguousarray(np.linalg.cholesky(covariance).T)
    u = normals[0] @ prior_factor
    solved = cho_solve((np.triu(factor), False), (root * u + normals[1]).T).T
    for function in PAIRS["deviations"]:
        out = np.empty((size, 60))
        made = function(prior_factor, covariance, factor, precision, *normals.copy(), out)
        assert made == (least * covariance[0, 0] < sites.INFORMATIVE)
        assert_allclose(out, u - (root * solved) @ covariance, atol=1e-14 + (not made) * 1e-14 / np.sqrt(least))


@pytest.mark.parametrize(("n", "condition"), [*product(SIZES, CONDITIONS)])
def test_diagonals_of_inverses(n, condition):
    covariance, _, _, precision = problem(n, condition)
    for function in PAIRS["inverse_diagonal"]:
        factor, diagonal = factor_of(covariance, precision), np.empty(n)
        with np.errstate(all="ignore"):
            function(factor, diagonal)
        expected = np.square(np.linalg.inv(np.triu(factor_of(covariance, precision)).T)).sum(axis=0)
        assert_allclose(diagonal, expected, rtol=PRECISION if condition is CONDITIONS[0] else 1e-7)
    with np.errstate(all="ignore"):
        outputs = factor_of(covariance, precision), np.empty(n)
        _, written, _, reference = both("inverse_diagonal", outputs)
    assert_allclose(written[1], reference[1], rtol=PRECISION)


@pytest.mark.parametrize(("n", "condition"), [*product(SIZES, CONDITIONS)])
def test_normalizers(n, condition):
    _, prior_mean, linear, precision = problem(n, condition)
    mean = np.random.default_rng(2).normal(size=n)
    one, _, other, _ = both("log_normalizer", (), prior_mean, linear, precision, mean, 3.0)
    scale = float(np.abs(linear).sum() + precision.sum())
    close(one, other, scale)
    f = np.random.default_rng(3).normal(size=(5, n))
    f[0] = 40.0
    _, written, _, reference = both("log_sites", (np.empty(5),), linear, precision, f)
    close(written[0], reference[0], scale * 1600.0)


def cavity_arguments(n, seed=4):
    rng = np.random.default_rng(seed)
    linear, spread, mean = rng.normal(size=n), rng.uniform(0.01, 5.0, n), rng.normal(size=n)
    share = rng.uniform(1e-6, 1.0, n)
    share[:: max(1, n // 3)] = 1.0
    # A diagonal of a matrix, as the prior's variances are.
    prior_variance = np.diag(rng.uniform(0.5, 2.0, n)).T.diagonal()
    return prior_variance, mean, linear, spread, share


@pytest.mark.parametrize("n", SIZES)
def test_cavities(n):
    arguments = cavity_arguments(n)
    one, written, other, reference = both("cavities", [np.empty(n)] * 2, *arguments, 1.0 + 1e-6)
    assert one
    assert other
    assert_allclose(written, reference, rtol=PRECISION)


@pytest.mark.parametrize("share", [1.1, np.nan])
def test_cavities_of_what_is_no_covariance(share):
    arguments = cavity_arguments(10)
    arguments[-1][3] = share
    one, _, other, _ = both("cavities", [np.empty(10)] * 2, *arguments, 1.0 + 1e-6)
    assert not one
    assert not other


@pytest.mark.parametrize("n", SIZES)
def test_matched_sites(n):
    """Some terms vanish, and some would want a negative precision."""
    rng = np.random.default_rng(5)
    _, mean, linear, precision, share = cavity_arguments(n)
    variance = rng.uniform(0.1, 3.0, n)
    tilted_mean, tilted_variance, log_normalizer = rng.normal(size=n), rng.uniform(0.01, 4.0, n), rng.normal(size=n)
    tilted_mean[n // 2], tilted_variance[n // 3] = np.nan, 0.0
    arguments = linear, precision, mean, variance, share, tilted_mean, tilted_variance, log_normalizer, 1e-10
    one, written, other, reference = both("matched", (np.empty((2, n)),), *arguments)
    close(one, other, float(n))
    assert_allclose(written[0], reference[0], rtol=PRECISION, atol=1e-11)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_probit_terms(sign):
    signs = np.full(len(TAILS), sign)
    for variance in (1e-12, 0.3, 1e4):
        variances = np.full(len(TAILS), variance)
        _, written, _, reference = both("probit tilted_moments", (np.empty((3, len(TAILS))),), signs, TAILS, variances)
        assert_allclose(written[0], reference[0], rtol=PRECISION, atol=PRECISION * variance)
    _, written, _, reference = both("probit derivatives", (np.empty((2, len(TAILS))),), signs, TAILS)
    assert_allclose(written[0], reference[0], rtol=PRECISION)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_moments_by_quadrature(n, moved):
    """Terms of all widths; one that vanishes, one that does at some nodes, and one that is not a number or infinite."""
    rng, (nodes, weights) = np.random.default_rng(7), normal_rule(32)
    mean, variance = rng.normal(size=n), rng.uniform(0.01, 4.0, n)
    center, width = (mean + rng.normal(size=n), variance * rng.uniform(1e-4, 1.0, n)) if moved else (mean, variance)
    _, points, _, reference = both("placed", (np.empty((32, n)),), mean, center, width, nodes)
    assert_allclose(points, reference, rtol=1e-15, atol=1e-15)
    steep = 10.0 ** rng.uniform(-2.0, 3.0, n)
    logs = -np.logaddexp(0.0, -steep * points[0]) - np.exp(points[0])
    logs[:20, n // 2] = -np.inf
    if n > 4:
        logs[:, 0], logs[3, 1], logs[4, 2] = -np.inf, np.nan, np.inf
    arguments = logs, mean, variance, center, width, nodes, weights, moved, RESOLUTION
    with np.errstate(all="ignore"):
        _, written, _, reference = both("tilted moments", (np.empty((3, n)),), *arguments)
    close(written[0][:2], reference[0][:2], 1.0)
    assert_allclose(written[0][2], reference[0][2], rtol=PRECISION, atol=PRECISION)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("n", SIZES)
def test_probit_likelihoods(n, scale):
    rng = np.random.default_rng(6)
    f, signs = scale * rng.normal(size=(7, n)), rng.choice([-1.0, 1.0], n)
    none = np.empty(0)
    _, written, _, reference = both("probit log_ratios", (np.empty(7),), signs, none, none, f)
    assert_allclose(written[0], reference[0], rtol=PRECISION, atol=1e-14 * n)
    linear, precision = rng.normal(size=n), rng.uniform(0.01, 5.0, n)
    _, written, _, reference = both("probit log_ratios", (np.empty(7),), signs, linear, precision, f)
    close(
        written[0], reference[0], float(np.abs(f).max() * np.abs(linear).sum() + np.square(f).max() * precision.sum())
    )


@pytest.mark.parametrize("scale", [1e-3, 1.0, 40.0])
@pytest.mark.parametrize("n", SIZES)
def test_ordinal_likelihoods(n, scale):
    """Intervals of all widths, the first and last of which have no end."""
    rng = np.random.default_rng(8)
    limits = np.concatenate([[-np.inf], np.cumsum([-3.0, 1e-7, 0.3, 1.0, 5.0, 30.0]), [np.inf]])
    y = rng.integers(0, 7, n)
    data = np.array([limits[y], limits[y + 1], rng.uniform(0.1, 3.0, n)])
    f, none = scale * rng.normal(size=(7, n)), np.empty(0)
    _, written, _, reference = both("ordinal log_ratios", (np.empty(7),), data, none, none, f)
    assert_allclose(written[0], reference[0], rtol=PRECISION, atol=1e-14 * n)
    linear, precision = rng.normal(size=n), rng.uniform(0.01, 5.0, n)
    _, written, _, reference = both("ordinal log_ratios", (np.empty(7),), data, linear, precision, f)
    sites_at_f = np.abs(f) @ np.abs(linear) + np.square(f) @ precision
    close(written[0], reference[0], float(np.abs(reference[0]).max() + sites_at_f.max()))


def test_probit_likelihood_of_what_is_not_a_number():
    f = np.array([[np.nan, 0.0], [np.inf, 0.0], [-np.inf, 0.0]])
    with np.errstate(divide="ignore"):
        _, written, _, reference = both("probit log_ratios", (np.empty(3),), np.ones(2), *[np.empty(0)] * 2, f)
    assert_allclose(written[0], reference[0], rtol=PRECISION)


def test_normal_probabilities():
    """Both tails, where one is small and where it is lost beside one."""
    z = np.concatenate([np.linspace(-37.0, 40.0, 20_001), [0.0, -0.0, -5e-324, np.inf]])
    found = np.empty(len(z))
    normal.probabilities(z, found)
    # The rounding of z^2 is all that is lost far out.
    assert np.all(np.abs(found / ndtr(z) - 1.0) <= 2e-15 + 2.5e-16 * np.square(np.minimum(z, 0.0)))
    assert_allclose(np.log(found[z < 0.0]), log_ndtr(z[z < 0.0]), rtol=1e-14)


@pytest.mark.parametrize("z", [-40.0, -np.inf])
def test_normal_probabilities_are_never_zero(z):
    found = np.empty(1)
    normal.probabilities(np.array([z]), found)
    assert 0.0 < found[0] < 1e-297


@pytest.mark.parametrize("name", ["probit", "ordinal"])
@pytest.mark.parametrize("scale", [1.0, 40.0])
@pytest.mark.parametrize("n", SIZES)
def test_log_ratios_end_early_where_they_are_too_small(n, scale, name):
    """Only then, and only without sites; no sooner than the terms that are known say so."""
    rng = np.random.default_rng(9)
    f, none, log_ratio = scale * rng.normal(size=n), np.empty(0), {"probit": probit, "ordinal": ordinal}[name].log_ratio
    limits = np.array([-np.inf, -1.0, -1.0 + 1e-7, 2.0, np.inf])
    y = rng.integers(0, 4, n)
    data = rng.choice([-1.0, 1.0], n) if name == "probit" else np.array([limits[y], limits[y + 1], np.ones(n)])
    whole = log_ratio(data, none, none, f, -np.inf)
    assert log_ratio(data, none, none, f, whole * (1.0 + 1e-9) - 1e-9) == whole
    assert log_ratio(data, none, none, f, whole) == whole
    ended = log_ratio(data, none, none, f, whole + 1e4 * n)
    assert ended in (whole, -np.inf)
    assert ended == -np.inf or n < 100 or scale < 40.0
    linear, precision = rng.normal(size=n), rng.uniform(0.01, 5.0, n)
    with_sites = log_ratio(data, linear, precision, f, -np.inf)
    assert log_ratio(data, linear, precision, f, np.inf) == with_sites


@pytest.mark.parametrize("spread", [0.0, 3.0, 1000.0])
@pytest.mark.parametrize("draws", [1, 2, 64])
def test_weights(draws, spread):
    log_weights = -700.0 + spread * np.random.default_rng(7).normal(size=draws)
    log_weights[: draws // 2] = -np.inf
    one, written, other, reference = both("normalized", (np.empty(draws),), log_weights)
    assert one == pytest.approx(other, rel=PRECISION)
    assert_allclose(written[0], reference[0], rtol=PRECISION)


def test_weights_that_all_vanish():
    with np.errstate(all="ignore"):
        one, written, other, reference = both("normalized", (np.empty(3),), np.full(3, -np.inf))
    assert one == other == -np.inf
    assert not np.any(written[0])
    assert not np.any(reference[0])


def test_a_kernel_that_differs_is_rejected():
    """The comparison's broken twin: a matrix that is off by a part in ten thousand millions."""
    covariance, mean, linear, precision = problem(50, CONDITIONS[0])
    outputs = np.zeros((50, 50)), np.empty(50), np.empty((2, 50))
    sites.condition(covariance, mean, linear, precision, *outputs)
    means = [outputs[1].copy()]
    sites.condition(covariance * (1.0 + 1e-10), mean, linear, precision, *outputs)
    with pytest.raises(AssertionError):
        close(means[0], outputs[1])
