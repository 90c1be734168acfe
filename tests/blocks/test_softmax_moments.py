"""Nodes about the modes of tilted densities: where they are, what is found there, and fits that need them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.likelihoods import MultinomialLogit
from pmgp.core.likelihoods.block_moments import contrasts_of
from pmgp.core.likelihoods.softmax_moments import softmax_moments, tilted_modes
from tests.blocks.problems import classification, kernel
from tests.finite_differences import central_differences

CLASSES = 5
COUNTS = np.eye(CLASSES)[[0, 3, 4, 2]].T


def cavities(size: float) -> tuple[np.ndarray, np.ndarray]:
    """Means `size` long, and covariances that are not diagonal."""
    rng = np.random.default_rng(1)
    mean = rng.normal(size=(4, CLASSES - 1))
    roots = 0.5 * rng.normal(size=(4, CLASSES - 1, CLASSES - 1)) + 2.0 * np.eye(CLASSES - 1)
    return size * mean / np.linalg.norm(mean, axis=1, keepdims=True), roots @ roots.swapaxes(1, 2)


@pytest.mark.parametrize("size", [1.0, 40.0])
def test_the_mode_is_where_the_gradient_vanishes(size):
    """And the width is that of half of the likelihood's curvature there; from far off, too."""
    mean, covariance = cavities(size)
    mode, width = tilted_modes(COUNTS, mean, covariance, mean)
    for site in range(4):
        likelihood = MultinomialLogit(COUNTS[:, [site]].T)

        def log_tilted(g, site=site, likelihood=likelihood):
            deviation = g - mean[site]
            own = likelihood.log_likelihood(contrasts_of(CLASSES).T @ g)
            return own - 0.5 * deviation @ np.linalg.solve(covariance[site], deviation)

        # A tenth of a step away at most, in units of the curvature.
        gradient = central_differences(log_tilted, mode[site], 1e-4)
        assert np.linalg.norm(width[site] @ gradient) < 0.1
    precision = np.linalg.inv(covariance)
    curvature = MultinomialLogit(COUNTS.T).derivatives((mode @ contrasts_of(CLASSES)).T.ravel())[1].blocks
    own = contrasts_of(CLASSES) @ curvature @ contrasts_of(CLASSES).T
    assert_allclose(np.linalg.inv(width), precision + 0.5 * own, atol=0.02)


def test_moments_do_not_depend_on_what_is_taken_for_near():
    """A narrow guess far off makes narrow moments where nodes are placed about it, and narrower ones the next time."""
    mean, covariance = cavities(3.0)
    likelihood = MultinomialLogit(COUNTS.T)
    expected = likelihood.tilted_moments(mean, covariance)
    found = likelihood.tilted_moments(mean, covariance, near=(mean + 2.0, 1e-4 * covariance))
    assert_allclose(found.covariance, expected.covariance, atol=0.05)
    assert_allclose(found.mean, expected.mean, atol=0.05)


def test_the_expected_curvature_is_that_of_draws():
    mean, covariance = cavities(2.0)
    found = softmax_moments(COUNTS, mean, covariance, tilted_modes(COUNTS, mean, covariance, mean))
    rng = np.random.default_rng(0)
    deviations = np.einsum("nde,kne->knd", np.linalg.cholesky(covariance), rng.normal(size=(100_000, *mean.shape)))
    f = (mean + deviations) @ contrasts_of(CLASSES)
    pi = np.exp(f - f.max(axis=2, keepdims=True))
    pi /= pi.sum(axis=2, keepdims=True)
    weights = np.einsum("cn,knc->kn", COUNTS, pi)
    weights /= weights.sum(axis=0)
    products = np.einsum("kn,knc,knd->ncd", weights, pi, pi)
    expected = np.einsum("kn,knc->nc", weights, pi)[:, :, None] * np.eye(CLASSES) - products
    assert_allclose(found.curvature, expected, atol=0.01)
    assert_allclose(found.curvature.sum(axis=2), 0.0, atol=1e-12)


def test_what_has_not_been_observed_keeps_its_cavity():
    mean, covariance = cavities(2.0)
    none = np.zeros((CLASSES, 4))
    found = softmax_moments(none, mean, covariance, tilted_modes(none, mean, covariance, mean + 1.0))
    assert_allclose(found.mean, mean, atol=1e-9)
    assert_allclose(found.covariance, covariance, rtol=1e-9)
    assert_allclose(found.curvature, 0.0)
    assert_allclose(found.log_normalizer, 0.0, atol=1e-9)


def outlier() -> tuple[BlockPrior, MultinomialLogit]:
    """Six classes in regions of their own, and a label that belongs elsewhere; processes of large variance."""
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(6), 7)
    x = 2.0 * np.stack([np.cos(labels), np.sin(labels)], axis=1) + 0.5 * rng.normal(size=(42, 2))
    labels[0] = 3
    return BlockPrior([DensePrior(np.zeros(42), kernel(x, 150.0, 2.0))] * 6), MultinomialLogit(labels, 6)


def test_a_label_that_belongs_elsewhere_does_not_keep_the_fit_from_converging():
    """Its site would get narrower in every sweep with nodes about q, until the evidence is any number."""
    prior, likelihood = outlier()
    q = ExpectationPropagation(max_sweeps=20).fit(prior, likelihood).factorized()
    assert q.converged
    logs = q.log_weights(likelihood, q.sample(np.random.default_rng(0), 20_000))
    assert abs(log_mean_exp(logs) - q.log_evidence) < 3.0
    assert q.precision.scale.max() < 10.0


def test_a_sweep_before_importance_samples_brings_sites_nearer_to_their_fixed_point():
    """Where q has converged; its evidence stays as it is."""
    prior, likelihood = classification(60, 4, seed=1)
    propagation = ExpectationPropagation()
    q = propagation.fit(prior, likelihood)
    refined, exact = propagation.refine(q, likelihood), ExpectationPropagation(tolerance=1e-8).fit(prior, likelihood)
    for distance in (lambda one: one.mean - exact.mean, lambda one: one.precision.scale - exact.precision.scale):
        assert np.linalg.norm(distance(refined)) < 0.8 * np.linalg.norm(distance(q))
    assert refined.log_evidence == q.log_evidence


def test_sites_that_match_or_that_stand_in_for_others_stay():
    prior, likelihood = classification(60, 3, seed=1)
    propagation = ExpectationPropagation()
    q = propagation.fit(prior, likelihood)
    assert propagation.refine(q, likelihood) is q
    prior, likelihood = classification(60, 4, seed=1)
    standing_in = replace(propagation.fit(prior, likelihood), converged=False)
    assert propagation.refine(standing_in, likelihood) is standing_in
