"""Moment matching moves q's means and variances to the posterior's, and makes importance weights even."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import log_ndtr

from pmgp.core.approximations import Laplace
from pmgp.core.approximations.moment_matching import cavities, match_moments
from pmgp.core.gaussians import Conditioning, DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import counted
from tests.truths import low_rank_problem


def marginal_variances(approximation: SiteApproximation) -> np.ndarray:
    return (1.0 - linalg.inverse_diagonal(approximation.factor)) / approximation.precision


def test_one_site_gets_the_exact_moments():
    """With a single site the cavity is the prior, so that one sweep is exact."""
    likelihood = BernoulliProbit(np.array([1]))
    laplace = Laplace().fit(DensePrior(np.array([-0.5]), np.array([[4.0]], order="F")), likelihood)
    matched = match_moments(laplace, likelihood, sweeps=1)
    grid = np.linspace(-15.0, 15.0, 60_001)
    density = np.exp(log_ndtr(grid) - 0.125 * (grid + 0.5) ** 2)
    density /= density.sum()
    mean = grid @ density
    assert matched.mean[0] == pytest.approx(mean, rel=1e-8)
    assert marginal_variances(matched)[0] == pytest.approx((grid - mean) ** 2 @ density, rel=1e-6)


def two_site_truth(covariance: np.ndarray, sign: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    grid = np.linspace(-18.0, 18.0, 1201)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"))
    quadratic = np.einsum("iab,ij,jab->ab", f, np.linalg.inv(covariance), f)
    density = np.exp(-0.5 * quadratic + log_ndtr(sign[0] * f[0]) + log_ndtr(sign[1] * f[1]))
    density /= density.sum()
    mean = np.array([(density * part).sum() for part in f])
    return mean, np.array([(density * (part - m) ** 2).sum() for part, m in zip(f, mean, strict=True)])


def test_moments_against_quadrature():
    """Expectation propagation's fixed point is close to the truth, and far closer than Laplace."""
    covariance = np.array([[6.0, 3.0], [3.0, 4.0]], order="F")
    likelihood = BernoulliProbit(np.array([1, 0]))
    mean, variance = two_site_truth(covariance, likelihood.sign)
    laplace = Laplace().fit(DensePrior(np.zeros(2), covariance), likelihood)
    matched = match_moments(laplace, likelihood, sweeps=8)
    np.testing.assert_allclose(matched.mean, mean, atol=0.02)
    np.testing.assert_allclose(marginal_variances(matched), variance, rtol=0.02)
    assert np.abs(laplace.mean - mean).max() > 10 * np.abs(matched.mean - mean).max()


@pytest.mark.parametrize("n", [50, 200])
def test_importance_weights_become_even(n):
    prior, y, _ = low_rank_problem(n, noise=3.0)
    likelihood = BernoulliProbit(y)
    laplace = Laplace().fit(prior, likelihood)
    matched = Laplace(sweeps=2).refine(laplace, likelihood)
    spread = [np.std(q.log_weights(likelihood, q.sample(np.random.default_rng(0), 2000))) for q in (laplace, matched)]
    assert spread[1] < 0.6 * spread[0]


def test_matched_approximation_is_consistent():
    """Its mean and factor belong to its sites: the weights still average to the evidence."""
    prior, y, truth = low_rank_problem(50)
    likelihood = BernoulliProbit(y)
    matched = Laplace().refine(Laplace().fit(prior, likelihood), likelihood)
    logs = matched.log_weights(likelihood, matched.sample(np.random.default_rng(1), 20_000))
    ratios = np.exp(logs - truth)
    assert abs(ratios.mean() - 1.0) < 4.0 * ratios.std() / np.sqrt(len(ratios))


def test_operations_are_counted_and_the_given_approximation_is_left_alone():
    prior, y, _ = low_rank_problem(50)
    likelihood = BernoulliProbit(y)
    laplace = Laplace().fit(prior, likelihood)
    before = laplace.factor.copy()
    with counted() as counts:
        match_moments(laplace, likelihood, sweeps=3)
    assert counts.total.cubic == (3, 3, 0)
    np.testing.assert_array_equal(laplace.factor, before)


def test_likelihood_without_tilted_moments_keeps_its_sites():
    class Unknown(BernoulliProbit):
        def tilted_moments(self, mean, variance, near=None):
            return None

    prior, y, _ = low_rank_problem(50)
    laplace = Laplace().fit(prior, Unknown(y))
    assert match_moments(laplace, Unknown(y), sweeps=2) is laplace


def test_a_cavity_is_no_wider_than_the_prior():
    """Where a site says next to nothing, (1 - d) / (w d) is rounding over rounding."""
    n = 40
    conditioned = Conditioning(DensePrior(np.zeros(n), np.asfortranarray(np.diag(np.linspace(0.5, 3.0, n)))))
    assert conditioned.on(np.zeros(n), np.full(n, 1e-10))
    q = conditioned.approximation(0.0, 1)
    with_rounding = (1.0 - q.inverse_diagonal) / q.precision / q.inverse_diagonal
    assert (with_rounding > q.prior.variance).any()
    assert (cavities(q).variance <= q.prior.variance).all()


def test_what_stands_in_for_another_approximation_still_does_after_matching():
    prior, y, _ = low_rank_problem(20)
    likelihood = BernoulliProbit(y)
    for converged in (True, False):
        q = replace(Laplace().fit(prior, likelihood), converged=converged)
        assert match_moments(q, likelihood, 2).converged == converged
