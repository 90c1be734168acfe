"""Proposals for theta: what they learn, and the Hastings ratio."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_t

from pmgp.core.adaptation.moments import Moments
from pmgp.core.transitions.proposals import DEGREES_OF_FREEDOM, INDEPENDENT, INFLATION, WALK, AdaptiveProposal

FACTOR = np.array([[0.5, 0.0], [0.3, 0.8]])
LOCATION = np.array([1.0, -2.0])


def test_moments_are_those_of_the_vectors():
    vectors = np.random.default_rng(0).normal(size=(50, 3)) @ np.diag([1.0, 2.0, 0.1]) + 5.0
    moments = Moments(3)
    for vector in vectors:
        moments.add(vector)
    weight = 50 / 56
    np.testing.assert_allclose(moments.mean, vectors.mean(axis=0))
    expected = weight * np.cov(vectors.T) + (1 - weight) * 0.05 * np.eye(3)
    np.testing.assert_allclose(moments.covariance(), expected, rtol=1e-12)


def test_random_walk_is_symmetric_and_scaled():
    proposal = AdaptiveProposal(2, log_scale=np.log(0.7), factor=FACTOR, location=LOCATION)
    rng = np.random.default_rng(1)
    draws = [proposal.propose(rng, np.zeros(2)) for _ in range(20_000)]
    assert all(draw.log_hastings == 0.0 and draw.component == WALK for draw in draws)
    steps = np.array([draw.position for draw in draws])
    np.testing.assert_allclose(np.cov(steps.T), 0.49 * FACTOR @ FACTOR.T, atol=0.02)


def test_hastings_ratio_of_the_independence_proposal():
    proposal = AdaptiveProposal(2, independence=1.0, location=LOCATION, factor=FACTOR)
    density = multivariate_t(LOCATION, INFLATION**2 * FACTOR @ FACTOR.T, df=DEGREES_OF_FREEDOM)
    theta = np.array([0.4, 0.9])
    proposed = proposal.propose(np.random.default_rng(2), theta)
    assert proposed.component == INDEPENDENT
    expected = density.logpdf(theta) - density.logpdf(proposed.position)
    assert proposed.log_hastings == pytest.approx(expected, rel=1e-10)


def test_independence_proposal_has_the_density_it_claims():
    """Probability integral transform of the squared distance, which is F-distributed."""
    from scipy.stats import f as f_distribution
    from scipy.stats import kstest

    proposal = AdaptiveProposal(2, independence=1.0, location=LOCATION, factor=FACTOR)
    rng = np.random.default_rng(3)
    draws = np.array([proposal.propose(rng, np.zeros(2)).position for _ in range(5000)])
    standard = np.linalg.solve(INFLATION * FACTOR, (draws - LOCATION).T)
    assert kstest(np.square(standard).sum(axis=0) / 2.0, f_distribution(2, DEGREES_OF_FREEDOM).cdf).pvalue > 1e-3


def test_scale_adapts_to_the_target_rate():
    """On a normal target the random walk settles where a quarter of the proposals are accepted."""
    rng = np.random.default_rng(4)
    proposal, theta, rates = AdaptiveProposal(2, target_rate=0.25), np.zeros(2), []
    for iteration in range(6000):
        proposed = proposal.propose(rng, theta)
        rate = float(np.exp(min(0.0, 0.5 * (theta @ theta - proposed.position @ proposed.position))))
        proposal = proposal.adapted(rate, iteration)
        theta = proposed.position if rng.uniform() < rate else theta
        rates.append(rate)
    assert np.mean(rates[3000:]) == pytest.approx(0.25, abs=0.03)


def test_refit_takes_location_and_covariance():
    moments = Moments(2)
    for vector in np.random.default_rng(5).normal(size=(4000, 2)):
        moments.add(vector)
    refitted = AdaptiveProposal(2).refitted(moments, independence=0.4)
    np.testing.assert_allclose(refitted.factor @ refitted.factor.T, moments.covariance())
    np.testing.assert_allclose(refitted.location, moments.mean)
    assert refitted.independence == 0.4
    assert refitted.log_scale == pytest.approx(np.log(2.4 / np.sqrt(2.0)))
