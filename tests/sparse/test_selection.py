"""Inducing inputs that are chosen: clusters, and the largest conditional variances."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.cluster.vq import kmeans2

import pmgp
from pmgp.core.inducing import selection
from pmgp.core.inducing.selection import cluster_centers, largest_conditional_variances


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(4).standard_normal((60, 2))


def covariance(X, Z):
    return np.exp(-0.5 * np.square(X[:, None] - Z[None]).sum(axis=-1))


def left_over(X, Z):
    """Variances of f given u."""
    cross = covariance(Z, X)
    return 1.0 - np.einsum("ij,ij->j", cross, np.linalg.solve(covariance(Z, Z) + 1e-10 * np.eye(len(Z)), cross))


def test_clusters_are_found(rng):
    centers = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    points = np.repeat(centers, 20, axis=0) + 0.1 * rng.standard_normal((60, 2))
    found = cluster_centers(points, 3, rng)
    distances = np.linalg.norm(found[:, None] - centers, axis=-1)
    assert (distances.min(axis=0) < 0.1).all()


def test_centers_are_those_of_scipy(rng):
    points = rng.normal(size=(300, 3))
    ours, theirs = (np.random.default_rng(seed) for seed in (5, 5))
    expected, _ = kmeans2(points, 20, iter=20, minit="++", rng=theirs)
    np.testing.assert_array_equal(cluster_centers(points, 20, ours), np.unique(expected, axis=0))
    assert ours.uniform() == theirs.uniform()


def test_clusters_that_lose_their_points_go_elsewhere(monkeypatch, rng):
    """The center of an empty cluster stays, and may come to lie on another."""
    points = np.array([[0.0], [0.1], [3.0], [8.0]])
    monkeypatch.setattr(selection, "kmeans2", lambda X, m, **_: (np.array([[0.05], [0.05], [3.0]]), None))
    np.testing.assert_allclose(cluster_centers(points, 3, rng), [[0.05], [3.0], [8.0]])


def test_each_point_has_the_largest_variance_given_those_before(inputs):
    K = covariance(inputs, inputs)
    chosen = largest_conditional_variances(np.ones(60), lambda index: K[:, index], 8)
    for step in range(1, 8):
        known = chosen[:step]
        left = 1.0 - np.einsum("ij,ij->j", K[known], np.linalg.solve(K[np.ix_(known, known)], K[known]))
        np.testing.assert_allclose(left[chosen[step]], left.max(), rtol=1e-9)


def test_it_stops_where_nothing_is_left():
    K = np.outer(np.arange(1.0, 5.0), np.arange(1.0, 5.0))
    np.testing.assert_array_equal(largest_conditional_variances(K.diagonal(), lambda i: K[:, i], 3), [3])


@pytest.mark.parametrize(("method", "measure"), [("kmeans", np.sum), ("conditional_variance", np.max)])
def test_chosen_inputs_leave_less_variance_than_random_ones(inputs, method, measure):
    with pm.Model():
        cov_func = pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("lengthscale", 0.0, 0.5))
        Z = pmgp.gp.select_inducing(inputs, 10, method, cov_func=cov_func, start={"lengthscale": 1.0}, random_seed=1)
    assert Z.shape == (10, 2)
    by_chance = [pmgp.gp.select_inducing(inputs, 10, "random", random_seed=seed) for seed in range(20)]
    assert measure(left_over(inputs, Z)) < min(measure(left_over(inputs, other)) for other in by_chance)


def test_the_same_seed_gives_the_same_inputs(inputs):
    first, second, other = (pmgp.gp.select_inducing(inputs, 6, random_seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"M": 61}, "M must be from 1 to the number of different rows of X, 60, not 61"),
        ({"M": 0}, "not 0"),
        ({"method": "best"}, "must be one of kmeans, conditional_variance, random, not 'best'"),
        ({"method": "optimized"}, "see pmgp.gp.optimize_inducing"),
        ({"method": "conditional_variance"}, "needs cov_func"),
        ({"X": np.zeros(3)}, "X must be a table"),
        ({"X": np.array([[1.0], [np.nan]])}, "not finite in row 1"),
    ],
)
def test_what_is_refused(inputs, change, message):
    with pytest.raises(ValueError, match=message):
        pmgp.gp.select_inducing(**({"X": inputs, "M": 5} | change))
