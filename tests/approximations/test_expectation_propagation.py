"""Expectation propagation: the fixed point, its evidence against exact answers, and what happens where it fails."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from pmgp.core.approximations import ExpectationPropagation, Laplace, propagation
from pmgp.core.approximations.moment_matching import cavities, matched_sites
from pmgp.core.gaussians import Conditioning, DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit
from pmgp.core.numerics import linalg
from pmgp.core.numerics.ledger import counted
from pmgp.core.numerics.quadrature import tilted_moments
from tests.approximations.test_laplace import Normal, StudentT, prior_of_a_process
from tests.kernels import references
from tests.kernels.references import by_numpy
from tests.truths import low_rank_problem, posterior_by_summation

PRECISE = ExpectationPropagation(tolerance=1e-12, max_sweeps=200)


class NormalByQuadrature(Normal):
    def tilted_moments(self, mean, variance, near=None):
        return tilted_moments(lambda f: -0.5 * np.square(self.y - f) - 0.5 * np.log(2.0 * np.pi), mean, variance, near)


class StudentTByQuadrature(StudentT):
    def log_density(self, f):
        return -0.5 * (self.freedom + 1.0) * np.log1p(self._square(f) / self.freedom)

    def tilted_moments(self, mean, variance, near=None):
        return tilted_moments(self.log_density, mean, variance, near)


def marginal_variances(q: SiteApproximation) -> np.ndarray:
    return np.linalg.inv(np.linalg.inv(q.prior.covariance) + np.diag(q.precision)).diagonal()


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize("label", [0, 1])
def test_one_site_is_exact(link, label):
    prior, likelihood = DensePrior(np.array([-0.5]), np.array([[4.0]], order="F")), link(np.array([label]))
    q = PRECISE.fit(prior, likelihood)
    log_evidence, mean, variance = posterior_by_summation(prior, likelihood, 20_001)
    assert q.log_evidence == pytest.approx(log_evidence, abs=1e-6)
    assert_allclose(q.mean, mean, atol=1e-6)
    assert_allclose(marginal_variances(q), variance, rtol=1e-6)


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize("n", [2, 3])
def test_evidence_and_moments_are_near_the_truth(link, n):
    """With a prior mean that is not zero; Laplace's errors are thirty times as large."""
    for bits in np.ndindex(*[2] * n):
        prior, likelihood = prior_of_a_process(n), link(np.array(bits))
        log_evidence, mean, variance = posterior_by_summation(prior, likelihood)
        q = ExpectationPropagation().fit(prior, likelihood)
        assert q.log_evidence == pytest.approx(log_evidence, abs=0.01)
        assert_allclose(q.mean, mean, atol=0.03)
        assert_allclose(marginal_variances(q), variance, rtol=0.03)


@pytest.mark.parametrize("noise", [0.05, 0.3, 3.0])
@pytest.mark.parametrize("n", [50, 200])
def test_log_evidence_is_near_the_low_rank_truth(n, noise):
    prior, y, truth = low_rank_problem(n, noise=noise)
    assert ExpectationPropagation().fit(prior, BernoulliProbit(y)).log_evidence == pytest.approx(truth, abs=0.05)


def test_evidence_without_the_sites_own_normalizer_is_rejected(monkeypatch):
    """The broken twin: the sites are not divided out of q's normalizer with their own cavities."""
    prior, y, truth = low_rank_problem(50)
    monkeypatch.setattr(references, "log_site_normalizer", lambda *_: 0.0)
    with by_numpy():
        assert abs(ExpectationPropagation().fit(prior, BernoulliProbit(y)).log_evidence - truth) > 0.5


@pytest.mark.parametrize("n", [1, 5])
def test_a_gaussian_likelihood_is_exact(n, rng):
    prior, y = prior_of_a_process(n), rng.normal(size=n)
    q = PRECISE.fit(prior, NormalByQuadrature(y))
    marginal = multivariate_normal(prior.mean, prior.covariance + np.eye(n))
    assert q.log_evidence == pytest.approx(marginal.logpdf(y), abs=1e-8)
    assert_allclose(q.precision, 1.0, rtol=1e-8)
    assert_allclose(q.linear, y, rtol=1e-8)


def perturbed_evidence(q: SiteApproximation, likelihood, direction: np.ndarray, step: float) -> float:
    linear, precision = q.linear + step * direction[0], q.precision * np.exp(step * direction[1])
    conditioned = Conditioning(q.prior)
    assert conditioned.on(linear, precision)
    return matched_sites(conditioned, likelihood).log_evidence


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
def test_the_evidence_is_stationary_in_the_sites(link, rng):
    """So that an error of the sites enters it in the second order only."""
    n = 8
    prior, likelihood = prior_of_a_process(n), link(rng.integers(0, 2, size=n))
    q = PRECISE.fit(prior, likelihood)
    for _ in range(3):
        direction = rng.standard_normal((2, n))
        change = [perturbed_evidence(q, likelihood, direction, step) - q.log_evidence for step in (0.1, 0.05, 1e-4)]
        assert abs(change[2]) < 1e-6
        assert change[0] / change[1] == pytest.approx(4.0, rel=0.4)


STARTS = {
    "near": lambda sites: sites + 0.05,
    "far": lambda sites: sites + 3.0,
    "absurd": lambda sites: 1e4 * np.ones_like(sites),
    "flat": lambda sites: np.concatenate([np.zeros(len(sites) // 2), np.full(len(sites) // 2, -1e3)]),
    "nan": lambda sites: np.full_like(sites, np.nan),
}


@pytest.mark.parametrize("start", STARTS)
def test_every_start_leads_to_the_same_fixed_point(start, rng):
    prior, likelihood = prior_of_a_process(12), BernoulliProbit(rng.integers(0, 2, size=12))
    expected = PRECISE.fit(prior, likelihood)
    given = PRECISE.fit(prior, likelihood, start=STARTS[start](PRECISE.start_from(expected)))
    assert given.converged
    assert_allclose(given.mean, expected.mean, atol=1e-5)
    assert given.log_evidence == pytest.approx(expected.log_evidence, abs=1e-9)


def test_a_predicted_start_costs_two_factorizations_and_one_inversion(rng):
    prior, likelihood = prior_of_a_process(12), BernoulliProbit(rng.integers(0, 2, size=12))
    method = ExpectationPropagation()
    start = method.start_from(PRECISE.fit(prior, likelihood))
    with counted() as counts:
        method.fit(prior, likelihood, start=start)
    assert counts.total.cubic == (2, 1, 0)


def test_the_factor_is_that_of_the_sites(rng):
    prior = prior_of_a_process(8)
    q = ExpectationPropagation().fit(prior, BernoulliProbit(rng.integers(0, 2, size=8)))
    root = np.sqrt(q.precision)
    B = np.eye(8) + root[:, None] * prior.covariance * root
    assert_allclose(np.tril(q.factor) @ np.tril(q.factor).T, B, rtol=1e-12)


def test_a_likelihood_that_is_not_log_concave():
    """Contradictory observations: matching would take a negative precision, and the sites stay positive."""
    prior, likelihood = prior_of_a_process(3, variance=20.0), StudentTByQuadrature(np.array([-5.0, -6.0, 2.0]))
    log_evidence, mean, _ = posterior_by_summation(prior, likelihood, 121)
    q = ExpectationPropagation().fit(prior, likelihood)
    laplace = Laplace().fit(prior, likelihood)
    assert q.converged
    assert np.all(q.precision > 0.0)
    assert abs(q.log_evidence - log_evidence) < min(0.3, abs(laplace.log_evidence - log_evidence))
    assert_allclose(q.mean, mean, atol=0.5)


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize("variance", [1e-14, 1e-16, 1e-30])
def test_a_prior_that_leaves_next_to_no_variance(link, variance):
    """Posterior variances are the prior's there, and what the sites take from them is below rounding."""
    prior, likelihood = prior_of_a_process(20).scaled(variance), link(np.arange(20) % 3 == 0)
    q = ExpectationPropagation().fit(prior, likelihood)
    assert q.converged
    assert q.log_evidence == pytest.approx(float(likelihood.log_likelihood(prior.mean)), rel=1e-10)
    expected = linalg.symmetric_product(prior.covariance, likelihood.gradient(prior.mean))
    assert_allclose(q.mean - prior.mean, expected, atol=1e-15)
    assert np.all(cavities(q).marginal_variance > 0.0)


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
def test_many_duplicates_of_one_label_converge(link, monkeypatch):
    """Forty sites at each of three inputs overshoot together; with whole steps they never settle."""
    x = np.repeat([-1.0, 0.0, 1.5], 40)
    covariance = 200.0 * np.exp(-0.5 * np.square(x[:, None] - x)) + 1e-6 * np.eye(len(x))
    prior, likelihood = DensePrior(np.zeros(len(x)), np.asfortranarray(covariance)), link(np.ones(len(x)))
    q = ExpectationPropagation().fit(prior, likelihood)
    assert q.converged
    assert q.iterations < 40
    assert q.log_evidence == pytest.approx(PRECISE.fit(prior, likelihood).log_evidence, abs=0.03)
    monkeypatch.setattr(propagation, "SMALLEST_STEP", 1.0)
    assert not ExpectationPropagation().fit(prior, likelihood).converged


def test_the_change_of_q_is_its_divergence(rng):
    prior, likelihood = prior_of_a_process(6), BernoulliProbit(rng.integers(0, 2, size=6))
    old = Laplace().fit(prior, likelihood)
    matched = matched_sites(old, likelihood)
    change = np.stack([matched.linear - old.linear, matched.precision - old.precision])
    conditioned = old.conditioned()
    divergence = propagation._move(conditioned, matched, change)
    new = conditioned.approximation(0.0, 0)
    inverse = np.linalg.inv(prior.covariance)
    covariance, precision = np.linalg.inv(inverse + np.diag(old.precision)), inverse + np.diag(new.precision)
    moved = new.mean - old.mean
    product = covariance @ precision
    expected = 0.5 * (np.trace(product) - 6 - np.linalg.slogdet(product)[1] + moved @ precision @ moved)
    assert divergence == pytest.approx(expected, rel=1e-8)


def test_without_convergence_it_is_laplace(rng):
    prior, likelihood = prior_of_a_process(10), BernoulliProbit(rng.integers(0, 2, size=10))
    q = ExpectationPropagation(tolerance=1e-12, max_sweeps=2).fit(prior, likelihood)
    expected = Laplace().fit(prior, likelihood)
    assert not q.converged
    assert expected.converged
    assert_allclose(q.mean, expected.mean, rtol=1e-12)
    assert q.log_evidence == expected.log_evidence


def test_terms_that_are_not_known_one_by_one_are_refused():
    class Unknown(BernoulliProbit):
        def tilted_moments(self, mean, variance, near=None):
            return None

    prior, y, _ = low_rank_problem(20)
    with pytest.raises(ValueError, match="one by one"):
        ExpectationPropagation().fit(prior, Unknown(y))


@pytest.mark.parametrize("start", [None, np.zeros(8)])
def test_a_likelihood_that_is_zero_has_no_evidence(start):
    class Impossible(BernoulliProbit):
        def log_likelihood(self, f):
            return np.full(f.shape[:-1], -np.inf)

        def tilted_moments(self, mean, variance, near=None):
            return None

    q = ExpectationPropagation().fit(prior_of_a_process(4), Impossible(np.ones(4)), start)
    assert np.isneginf(q.log_evidence)


def test_a_covariance_with_nan_has_no_approximation():
    covariance = np.array(prior_of_a_process(5).covariance, order="F")
    covariance[3, 1] = np.nan
    prior = DensePrior(np.zeros(5), covariance)
    assert ExpectationPropagation().fit(prior, BernoulliProbit(np.ones(5, dtype=int))) is None


@pytest.mark.parametrize(
    "settings",
    [{"tolerance": 0.0}, {"tolerance": np.nan}, {"max_sweeps": 0}],
)
def test_settings_out_of_range_are_refused(settings):
    [(name, _)] = settings.items()
    with pytest.raises(ValueError, match=name):
        ExpectationPropagation(**settings)
