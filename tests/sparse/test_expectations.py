"""Expectations over normal latent values: closed forms against quadrature, and both against other integrals."""

from __future__ import annotations

from functools import partial

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import pmgp
from pmgp.core.numerics.quadrature import normal_rule
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.sparse.closed_forms import closed_form, largest_of_unlike, largest_probability
from pmgp.interface.sparse.likelihood import LatentLikelihood

MEAN, VARIANCE = np.array([-1.0, 0.2, 0.7, 1.5]), np.array([0.3, 1e-6, 2.0, 0.8])
COUNTS = np.array([0, 3, 1, 7])
TARGETS = np.array([0.4, -1.0, 2.0, 1.1])
NOISE = np.array([0.5, 1.0, 0.7, 2.0])


def evaluate(graph):
    return pytensor.function([], graph, mode=INTERPRETED)()


def expectations(dist, observed, order=40):
    """E log p and log E p."""
    given = [pt.constant(part) for part in (observed, MEAN, VARIANCE)]
    likelihood = LatentLikelihood(dist, order)
    return evaluate([likelihood.expected_log(*given), likelihood.log_expected(*given)])


def is_closed(dist):
    f = pt.vector("f")
    return closed_form(dist(f), f, 20) is not None


LINEAR = {
    "poisson": (lambda f: pm.Poisson.dist(pt.exp(f)), COUNTS),
    "exposure": (lambda f: pm.Poisson.dist(NOISE * pt.exp(f) / 3.0), COUNTS),
    "offset": (lambda f: pm.Poisson.dist(pt.exp(-0.5 * f + NOISE - 1.0)), COUNTS),
    "cox": (lambda f: pmgp.likelihoods.LogGaussianCox.dist(1.2 * f, exposure=NOISE), COUNTS),
    "normal": (lambda f: pm.Normal.dist(f, NOISE), TARGETS),
    "scaled": (lambda f: pm.Normal.dist(1.0 - (2.0 * f - NOISE) / 4.0, 0.4), TARGETS),
}


def hidden(dist):
    """The same distribution, in a form that the closed forms do not know."""
    return lambda f: dist(pt.maximum(f, -1e6))


def test_no_exposure_has_no_count():
    exposure = np.array([1.0, 0.0, 2.0, 1.0])
    value, _ = expectations(lambda f: pm.Poisson.dist(exposure * pt.exp(f)), np.array([0, 0, 2, 1]))
    assert value[1] == 0.0
    assert np.isfinite(value).all()


@pytest.mark.parametrize("name", LINEAR)
def test_closed_forms_are_the_quadrature(name):
    dist, observed = LINEAR[name]
    assert is_closed(dist)
    assert not is_closed(hidden(dist))
    closed, numerical = expectations(dist, observed), expectations(hidden(dist), observed)
    np.testing.assert_allclose(closed[0], numerical[0], rtol=1e-12)
    np.testing.assert_allclose(closed[1], numerical[1], rtol=1e-5)


@pytest.mark.parametrize(
    "dist",
    [
        lambda f: pm.Normal.dist(f * f, 1.0),
        lambda f: pm.Normal.dist(pt.exp(f), 1.0),
        lambda f: pm.Normal.dist(0.0, pt.exp(f)),
        lambda f: pm.Normal.dist(1.0 / f, 1.0),
        lambda f: pm.Poisson.dist(pt.exp(f) + 1.0),
        lambda f: pm.Poisson.dist(pt.softplus(f)),
        lambda f: pm.Poisson.dist(pt.exp(pt.square(f))),
    ],
)
def test_what_is_not_linear_is_left_to_the_quadrature(dist):
    assert not is_closed(dist)


def test_quadrature_is_the_integral():
    labels = np.array([0, 1, 1, 0])
    expected_log, log_expected = expectations(pmgp.BernoulliProbit.dist, labels)
    signs = 2.0 * labels - 1.0
    integrals = [
        quad(lambda z, s=s, m=m, v=v: norm.logcdf(s * (m + np.sqrt(v) * z)) * norm.pdf(z), -12, 12)[0]
        for s, m, v in zip(signs, MEAN, VARIANCE, strict=True)
    ]
    np.testing.assert_allclose(expected_log, integrals, rtol=1e-8)
    np.testing.assert_allclose(log_expected, norm.logcdf(signs * MEAN / np.sqrt(1.0 + VARIANCE)), rtol=1e-8)


def test_terms_with_vectors_of_their_own_are_the_mean_over_nodes():
    """Cut points have a length of their own, which nodes must not be mixed up with."""
    cuts, nodes = np.array([-0.5, 0.6]), normal_rule(20)[0]
    labels = np.array([0, 2, 1, 2])
    expected_log = expectations(lambda f: pmgp.OrdinalProbit.dist(f, cuts), labels, order=20)[0]
    f = MEAN + np.sqrt(VARIANCE) * nodes[:, None]
    bounds = np.array([-np.inf, *cuts, np.inf])
    low, high = bounds[labels] - f, bounds[labels + 1] - f
    # From the tail in which the interval lies, so that no digits are lost.
    logs = np.log(np.where(low > 0, norm.sf(low) - norm.sf(high), norm.cdf(high) - norm.cdf(low)))
    np.testing.assert_allclose(expected_log, normal_rule(20)[1] @ logs, rtol=1e-9)


def largest(mean, variance, rule):
    """Probabilities (k, n) that each class is the largest."""
    k, n = mean.shape
    labels = [np.full(n, label) for label in range(k)]
    given = [pt.constant(mean), pt.constant(variance)]
    return np.array([evaluate(rule(pt.constant(label), *given)[0]) for label in labels])


def gauss_hermite(order):
    return partial(largest_probability, order=order)


def test_probabilities_of_the_largest_add_up(rng):
    mean, variance = rng.standard_normal((4, 6)), rng.uniform(0.5, 1.5, (4, 6))
    np.testing.assert_allclose(largest(mean, variance, gauss_hermite(30)).sum(axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(largest(mean, variance, largest_of_unlike).sum(axis=0), 1.0, atol=1e-7)


def test_probabilities_of_unlike_values_add_up(rng):
    """However narrow some are; the quadrature for values that are alike is far off."""
    deviation = 10.0 ** rng.uniform(-3.0, 0.0, (4, 50))
    mean = rng.standard_normal((4, 50)) * 10.0 ** rng.uniform(-1.0, 0.5, 50)
    np.testing.assert_allclose(largest(mean, deviation**2, largest_of_unlike).sum(axis=0), 1.0, atol=1e-7)
    assert np.abs(largest(mean, deviation**2, gauss_hermite(30)).sum(axis=0) - 1.0).max() > 0.01


def test_slopes_of_unlike_values_are_those_of_their_differences(rng):
    """Two values, one a hundred times narrower than the other: first and second derivatives of an exact probability."""
    mean, variance = pt.matrix("mean"), np.square([[1.0] * 6, [0.01] * 6])
    probability, _ = largest_of_unlike(pt.zeros(6, dtype=int), mean, pt.constant(variance))
    slope = pt.grad(probability.sum(), mean)[0]
    curvature = pt.grad(slope.sum(), mean)[0]
    given = {mean: rng.standard_normal((2, 6))}
    spread = np.sqrt(variance.sum(axis=0))
    z = (given[mean][0] - given[mean][1]) / spread
    found = [graph.eval(given, mode=INTERPRETED) for graph in (probability, slope, curvature)]
    exact = [norm.cdf(z), norm.pdf(z) / spread, -z * norm.pdf(z) / spread**2]
    np.testing.assert_allclose(found, exact, atol=1e-6)


def test_of_two_the_larger_is_the_sign_of_their_difference(rng):
    mean, variance = rng.standard_normal((2, 6)), rng.uniform(0.3, 2.0, (2, 6))
    exact = norm.cdf((mean[0] - mean[1]) / np.sqrt(variance.sum(axis=0)))
    np.testing.assert_allclose(largest(mean, variance, gauss_hermite(60))[0], exact, atol=1e-7)


def test_expectations_of_robust_max(rng):
    mean, variance = rng.standard_normal((3, 3)), rng.uniform(0.5, 1.5, (3, 3))
    labels = np.array([2, 0, 1])
    likelihood = LatentLikelihood(lambda f: pmgp.likelihoods.RobustMax.dist(f, 0.05), 30)
    given = [pt.constant(part) for part in (labels, mean, variance)]
    expected_log, log_expected = evaluate([likelihood.expected_log(*given), likelihood.log_expected(*given)])
    draws = rng.normal(mean, np.sqrt(variance), (200_000, 3, 3))
    hits = draws.argmax(axis=1) == labels
    p, error = hits.mean(axis=0), hits.std(axis=0) / np.sqrt(len(draws))
    slope = np.log(0.95) - np.log(0.05 / 2)
    assert (np.abs(expected_log - (p * np.log(0.95) + (1 - p) * np.log(0.05 / 2))) < 4 * slope * error).all()
    assert (np.abs(np.exp(log_expected) - (0.95 * p + 0.05 / 2 * (1 - p))) < 4 * error).all()


def test_draws_of_robust_max_have_its_probabilities():
    f = np.array([[0.3, 1.0], [1.2, -0.5], [0.1, 0.4]])
    draws = pm.draw(pmgp.likelihoods.RobustMax.dist(f, 0.3), 4000, random_seed=1, mode=INTERPRETED)
    for column, winner in enumerate([1, 0]):
        frequencies = np.bincount(draws[:, column], minlength=3) / len(draws)
        expected = np.full(3, 0.15)
        expected[winner] = 0.7
        assert (np.abs(frequencies - expected) < 4 * np.sqrt(expected * (1 - expected) / len(draws))).all()
    logp = evaluate(pm.logp(pmgp.likelihoods.RobustMax.dist(f, 0.3), np.array([1, 3])))
    np.testing.assert_allclose(logp, [np.log(0.7), -np.inf])
