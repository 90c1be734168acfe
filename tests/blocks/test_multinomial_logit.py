"""The softmax likelihood: derivatives, both tails, counts, moments, and what it refuses."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multinomial

from pmgp.core.likelihoods import BernoulliLogit, MultinomialLogit
from pmgp.core.likelihoods.block_moments import ORDERS, contrasts_of, moments_by_nodes, normal_nodes
from pmgp.core.numerics.quadrature import normal_rule
from tests.blocks.problems import dense_matrix
from tests.finite_differences import central_differences

LABELS = np.array([0, 2, 1, 2, 3, 0])
COUNTS = np.array([[3, 0, 2], [1, 1, 1], [0, 0, 0], [0, 7, 1]])


def case(name: str) -> tuple[MultinomialLogit, np.ndarray]:
    y = {"labels": LABELS, "counts": COUNTS}[name]
    likelihood = MultinomialLogit(y)
    return likelihood, np.random.default_rng(0).normal(size=likelihood.counts.size) * 2.0


both_kinds = pytest.mark.parametrize("kind", ["labels", "counts"])


def test_density_is_that_of_the_multinomial():
    likelihood, f = case("counts")
    expected = [multinomial(n.sum(), p).logpmf(n) for n, p in zip(COUNTS, likelihood.probabilities(f).T, strict=True)]
    assert_allclose(likelihood.log_density(f), expected, atol=1e-12)
    assert_allclose(
        likelihood.log_likelihood(np.stack([f, 2.0 * f])), [np.sum(expected), likelihood.log_likelihood(2 * f)]
    )


def test_labels_are_counts_of_one():
    f = np.random.default_rng(1).normal(size=24)
    ones = MultinomialLogit((LABELS[:, None] == np.arange(4)).astype(int))
    assert_allclose(MultinomialLogit(LABELS).log_density(f), ones.log_density(f))


@both_kinds
def test_derivatives_are_those_of_the_density(kind):
    likelihood, f = case(kind)
    gradient, curvature = likelihood.derivatives(f)
    assert_allclose(gradient, central_differences(likelihood.log_likelihood, f, 1e-3), atol=1e-9)
    assert_allclose(gradient, likelihood.gradient(f))
    assert_allclose(-dense_matrix(curvature.blocks), central_differences(likelihood.gradient, f, 1e-3), atol=1e-9)
    assert_allclose(likelihood.fisher_information(f), dense_matrix(curvature.blocks).diagonal(), atol=1e-9)


@pytest.mark.parametrize("size", [40.0, 800.0])
def test_far_tails_are_exact(size):
    """The label's own class is `size` below another one, or above all."""
    below, above = MultinomialLogit([0], 3), MultinomialLogit([2], 3)
    f = np.array([-size, 0.0, size])
    assert_allclose(below.log_likelihood(f), -2.0 * size, rtol=1e-15)
    assert_allclose(above.log_likelihood(f), 0.0, atol=np.exp(-size) * 2.0)
    assert np.isfinite(below.derivatives(f)[1].blocks).all()
    assert_allclose(below.gradient(f), [1.0, 0.0, -1.0], atol=1e-15)


def test_shifts_of_all_classes_change_nothing():
    likelihood, f = case("labels")
    shift = np.tile(np.random.default_rng(2).normal(size=6) * 30.0, 4)
    assert_allclose(likelihood.log_likelihood(f + shift), likelihood.log_likelihood(f))
    assert_allclose(likelihood.contrasts @ likelihood.contrasts.T, np.eye(3), atol=1e-15)
    assert_allclose(likelihood.contrasts.sum(axis=1), 0.0, atol=1e-15)


def test_two_classes_are_a_logistic_regression_on_the_difference():
    rng = np.random.default_rng(3)
    y, f = rng.integers(0, 2, 8), rng.normal(size=(2, 8))
    assert_allclose(MultinomialLogit(y).log_density(f.ravel()), BernoulliLogit(y).log_density(f[1] - f[0]))


def normals(dimension: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(dimension)
    roots = 0.2 * rng.normal(size=(n, dimension, dimension)) + np.eye(dimension)
    return rng.normal(size=(n, dimension)), roots @ roots.swapaxes(1, 2)


def test_moments_of_two_classes_are_those_of_the_logistic():
    """With g = (f_1 - f_0) / sqrt(2) up to its sign, at the nodes' accuracy."""
    y = np.array([0, 1, 1])
    mean, covariance = normals(1, 3)
    sign = MultinomialLogit(y).contrasts[0, 1] * np.sqrt(2.0)
    found = MultinomialLogit(y).tilted_moments(mean, covariance)
    expected = BernoulliLogit(y).tilted_moments(sign * np.sqrt(2.0) * mean[:, 0], 2.0 * covariance[:, 0, 0])
    assert_allclose(found.log_normalizer, expected.log_normalizer, atol=1e-6)
    assert_allclose(sign * np.sqrt(2.0) * found.mean[:, 0], expected.mean, atol=1e-5)
    assert_allclose(2.0 * found.covariance[:, 0, 0], expected.variance, atol=1e-5)


@pytest.mark.parametrize(("classes", "tolerance"), [(3, 1e-6), (5, 0.01)])
def test_moments_are_those_of_sampling(classes, tolerance):
    """Against the mean over many draws, within four standard errors and the accuracy of the nodes."""
    y = np.arange(classes)
    likelihood = MultinomialLogit(y)
    mean, covariance = normals(classes - 1, classes)
    # As sweeps place the nodes: about the last answer.
    first = likelihood.tilted_moments(mean, covariance, near=(mean + 0.2, 1.2 * covariance))
    found = likelihood.tilted_moments(mean, covariance, near=(first.mean, first.covariance))
    rng = np.random.default_rng(0)
    draws = mean + np.einsum("nde,kne->knd", np.linalg.cholesky(covariance), rng.normal(size=(200_000, *mean.shape)))
    weights = np.exp(likelihood.log_density((draws @ likelihood.contrasts).swapaxes(1, 2).reshape(len(draws), -1)))
    error = 4.0 * weights.std(axis=0) / weights.mean(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(found.log_normalizer - np.log(weights.mean(axis=0))) < error + tolerance)
    share = weights / weights.sum(axis=0)
    average = np.einsum("kn,knd->nd", share, draws)
    spread = np.sqrt(np.einsum("kn,knd->nd", share**2, np.square(draws - average)))
    assert np.all(np.abs(found.mean - average) < 4.0 * spread + tolerance)
    second = np.einsum("kn,knd,kne->nde", share, draws - average, draws - average)
    assert_allclose(found.covariance, second, atol=0.02 + tolerance)


@pytest.mark.parametrize("dimension", [1, 2, 3, 5])
def test_a_flat_density_has_the_moments_of_the_normal(dimension):
    mean, covariance = normals(dimension, 4)
    found = moments_by_nodes(lambda g: np.zeros((len(g), g.shape[2])), mean, covariance, (mean, covariance))
    assert_allclose(found.mean, mean, atol=1e-12)
    assert_allclose(found.covariance, covariance, atol=1e-12)
    assert_allclose(found.log_normalizer, 0.0, atol=1e-12)


def test_nodes_without_mass_are_left_out_and_moments_stay():
    """Fourth moments and an exponential function agree with the whole product of two rules."""
    nodes, weights = normal_nodes(2)
    points, mass = normal_rule(ORDERS[2])
    assert nodes.shape[1] == len(weights) < 0.6 * ORDERS[2] ** 2
    for function in (np.square, lambda x: x**4, np.exp):
        expected = (mass @ function(points)) ** 2
        assert weights @ (function(nodes[0]) * function(nodes[1])) == pytest.approx(expected, rel=1e-6)


def test_nodes_are_always_the_same():
    normal_nodes.cache_clear()
    before = normal_nodes(3)[0].copy()
    normal_nodes.cache_clear()
    assert np.array_equal(before, normal_nodes(3)[0])
    assert contrasts_of(4) is contrasts_of(4)


@pytest.mark.parametrize(
    ("y", "classes", "message"),
    [
        ([0, 1, 3], 3, "labels of classes must be whole numbers among 0 to 2, one for each latent vector, found 3;"),
        ([0, 1, -1], None, "found -1; recode them"),
        ([0.5, 1.0], None, "found 0.5; recode them"),
        ([0.0, np.nan], 2, "found nan"),
        (["a", "b"], None, "found 'a', 'b'; recode them, for example np.unique(y, return_inverse=True)[1]"),
        ([0, 0, 0], None, "there must be at least 2 classes, not 1"),
        ([0, 0], 1, "there must be at least 2 classes, not 1"),
        ([[1], [2]], None, "there must be at least 2 classes, not 1"),
        ([[1, 2], [3, 4]], 3, "there are counts of 2 classes, but 3 latent vectors"),
        ([[1, -2], [3, 4]], None, "counts must be whole numbers, 0 or more, found -2.0"),
        ([[1, 0.5], [3, 4]], None, "found 0.5"),
    ],
)
def test_what_is_no_label_and_no_count_is_named(y, classes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        MultinomialLogit(np.array(y), classes)


def test_a_class_without_observations_is_allowed():
    likelihood = MultinomialLogit([0, 1, 0], 3)
    assert_allclose(likelihood.probabilities(np.zeros(9)), 1.0 / 3.0)
    assert_allclose(likelihood.counts.sum(axis=1), [2.0, 1.0, 0.0])
