"""Probabilities of new labels as ratios of orthant integrals."""

from __future__ import annotations

import numpy as np
import pytest

import pmgp
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.orthants import METHODS
from tests.orthants import truths
from tests.truths import posterior_by_summation


def ones(positive: int, negative: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels of a constant latent value with variance one, so that their probability is uniform."""
    n = positive + negative
    return np.repeat([1, 0], [positive, negative]), np.ones((n, n)), np.ones((n, 1))


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("method", METHODS)
def test_the_rule_of_succession(method, counted):
    y, covariance, cross = ones(5, 3)
    found = pmgp.orthants.classify(
        y, covariance, cross, 1.0, method=method, draws=20_000, counted=counted, random_seed=1
    )
    assert abs(found.probability[0] - 6.0 / 10.0) < 4.0 * found.standard_error[0]
    assert found.standard_error[0] < 0.02
    assert found.evidence.unbiased == (method != "soft")


def test_the_rule_of_succession_for_many_labels():
    y, covariance, cross = ones(300, 500)
    found = pmgp.orthants.classify(y, covariance, cross, 1.0, draws=400, random_seed=1)
    assert abs(found.probability[0] - 301.0 / 802.0) < 4.0 * found.standard_error[0]
    assert found.standard_error[0] < 0.002
    truth = truths.constant_process(300, 500).log_probability
    assert abs(found.evidence.log_probability - truth) < 4.0 * found.evidence.standard_error


def problem(n: int = 12, m: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    x = rng.normal(size=n + m)
    covariance = 5.0 * np.exp(-0.5 * np.square(x[:, None] - x))
    y = (np.sin(2.0 * x[:n]) + 0.5 * rng.normal(size=n) > 0.0).astype(int)
    return y, covariance[:n, :n], covariance[:n, n:], covariance.diagonal()[n:]


def test_it_is_the_ratio_of_two_orthants():
    """In n + 1 and in n dimensions, each estimated by itself."""
    y, covariance, cross, variance = problem()
    found = pmgp.orthants.classify(y, covariance, cross, variance, draws=4000, random_seed=1)
    signs = np.append(2.0 * y - 1.0, 1.0)
    for j in range(3):
        joint = np.block([[covariance, cross[:, [j]]], [cross[:, [j]].T, variance[[j]]]])
        joint = np.outer(signs, signs) * joint + np.eye(len(signs))
        both = pmgp.orthants.log_probability(0.0, np.inf, 0.0, joint, draws=4000, random_seed=2)
        ratio = np.exp(both.log_probability - found.evidence.log_probability)
        error = ratio * np.hypot(both.standard_error, found.evidence.standard_error)
        assert abs(found.probability[j] - ratio) < 4.0 * np.hypot(error, found.standard_error[j])
        assert error < 0.01


@pytest.mark.parametrize("method", ["ep", "ghk", "smc"])
def test_standard_errors_are_the_spread_of_repetitions(method):
    y, covariance, cross, variance = problem()
    runs = [
        pmgp.orthants.classify(y, covariance, cross, variance, method=method, draws=400, random_seed=seed)
        for seed in range(60)
    ]
    spread = np.std([run.probability for run in runs], axis=0, ddof=1)
    claimed = np.mean([run.standard_error for run in runs], axis=0)
    assert np.all((claimed / spread > 0.6) & (claimed / spread < 1.6))


def test_averages_have_a_smaller_error_than_counts():
    y, covariance, cross, variance = problem()
    averaged, counts = (
        pmgp.orthants.classify(y, covariance, cross, variance, counted=counted, random_seed=1).standard_error
        for counted in (False, True)
    )
    assert np.all(averaged < 0.7 * counts)


def test_the_labels_own_points_are_predicted_as_the_posterior_has_them():
    """At an observed point, the posterior mean of Phi(f), by summation over a grid."""
    covariance = np.array([[4.0, 3.0], [3.0, 4.0]])
    prior = DensePrior(np.zeros(2), np.asfortranarray(covariance))
    y = np.array([1, 0])
    with_label = posterior_by_summation(prior, BernoulliProbit(y), 401)[0]
    again = np.array([1, 0, 1])
    tripled = covariance[np.ix_([0, 1, 0], [0, 1, 0])] + 1e-9 * np.eye(3)
    both = posterior_by_summation(DensePrior(np.zeros(3), np.asfortranarray(tripled)), BernoulliProbit(again), 81)[0]
    found = pmgp.orthants.classify(y, covariance, covariance[:, :1], 4.0, draws=20_000, random_seed=1)
    assert abs(found.probability[0] - np.exp(both - with_label)) < 4.0 * found.standard_error[0] + 1e-6


def test_extinction_is_said():
    """Twenty draws without regard to labels that contradict each other: nothing is left, and nothing is known."""
    y = np.tile([0, 1], 20)
    found = pmgp.orthants.classify(
        y, np.full((40, 40), 1e4), np.full((40, 1), 1e4), 1e4, method="hard", draws=20, random_seed=1
    )
    assert found.evidence.log_probability == -np.inf
    assert np.isnan(found.probability).all()
    assert np.isinf(found.standard_error).all()


BAD = {
    "labels": (([1, 2], np.eye(2), np.ones((2, 1)), 1.0), "must be 0 or 1, found 2"),
    "covariance": (([1, 0], np.eye(3), np.ones((2, 1)), 1.0), r"covariance has shape \(3, 3\), but there are 2 labels"),
    "cross": (([1, 0], np.eye(2), np.ones(2), 1.0), r"a column for each new point; it has shape \(2,\)"),
    "variances": (([1, 0], np.eye(2), np.ones((2, 1)), [1.0, 2.0]), r"new_variance has shape \(2,\)"),
    "NaN": (([1, 0], np.eye(2), np.full((2, 1), np.nan), 1.0), "cross_covariance must be finite, found nan"),
    "masked label": ((np.ma.masked_array([1, 0], [1, 0]), np.eye(2), np.ones((2, 1)), 1.0), "y has masked values, 1"),
    "masked covariance": (
        ([1, 0], np.ma.masked_array(np.eye(2), [[0, 1], [1, 0]]), np.ones((2, 1)), 1.0),
        "covariance has masked values",
    ),
    "negative variances": (
        ([1, 0], -0.5 * np.eye(2), np.zeros((2, 1)), 1.0),
        "covariance must be positive semidefinite",
    ),
    "indefinite covariance": (
        ([1, 0], [[1.0, 1.5], [1.5, 1.0]], np.zeros((2, 1)), 1.0),
        "covariance must be positive semidefinite",
    ),
    "new variance": (
        ([1, 0], np.eye(2), [[0.0, 0.5], [0.0, 0.5]], [1.0, 0.0]),
        "new_variance 0 of new point 1 is too small",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    arguments, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        pmgp.orthants.classify(*arguments)


@pytest.mark.parametrize("method", METHODS)
def test_without_new_points_there_is_the_evidence_alone(method):
    y, covariance, cross, _ = problem()
    found = pmgp.orthants.classify(y, covariance, cross[:, :0], 1.0, method=method, draws=2000, random_seed=1)
    assert found.probability.shape == found.standard_error.shape == (0,)
    assert np.isfinite(found.evidence.log_probability)
