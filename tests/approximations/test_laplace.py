"""Laplace's approximation: the mode, the evidence, and Newton's robustness."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, logsumexp
from scipy.stats import multivariate_normal, norm

from pmgp.core.approximations import Laplace, laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit, LogGaussianCox
from pmgp.core.numerics.ledger import counted
from tests.truths import low_rank_problem

PRECISE = Laplace(tolerance=1e-18)


def covariance_of_a_process(n: int, variance: float = 6.0) -> np.ndarray:
    x = np.linspace(-2.0, 2.0, n)
    return variance * np.exp(-0.5 * np.square(x[:, None] - x)) + 0.1 * np.eye(n)


def prior_of_a_process(n: int, variance: float = 6.0) -> DensePrior:
    mean = np.linspace(-0.5, 1.0, n)
    return DensePrior(mean, np.asfortranarray(covariance_of_a_process(n, variance)))


def slope(prior: DensePrior, likelihood, f: np.ndarray) -> np.ndarray:
    """K times the gradient of log p(y|f) N(f|m, K): zero at a mode."""
    return prior.covariance @ likelihood.gradient(f) - (f - prior.mean)


class Normal:
    """y = f + noise: Laplace's approximation is exact."""

    def __init__(self, y: np.ndarray, noise: np.ndarray | float = 1.0) -> None:
        self.y = y
        self.noise = noise

    def log_likelihood(self, f):
        return norm.logpdf(self.y, f, self.noise).sum(axis=-1)

    def gradient(self, f):
        return (self.y - f) / np.square(self.noise)

    def curvature(self, f):
        return np.broadcast_to(np.square(self.noise) ** -1.0, f.shape)

    def derivatives(self, f):
        return self.gradient(f), self.curvature(f)

    def tilted_moments(self, mean, variance, near=None):
        """Return None: moments are not known."""

    fisher_information = curvature


class StudentT:
    """y = f + noise of a Student t with four degrees of freedom: not log-concave in f."""

    freedom = 4.0
    scale = 0.3

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def log_likelihood(self, f):
        power = 0.5 * (self.freedom + 1.0)
        return -(power * np.log1p(self._square(f) / self.freedom)).sum(axis=-1)

    def _square(self, f):
        return np.square((self.y - f) / self.scale)

    def gradient(self, f):
        return (self.freedom + 1.0) * (self.y - f) / (self.freedom + self._square(f)) / self.scale**2

    def curvature(self, f):
        square = self._square(f)
        numerator = (self.freedom + 1.0) * (self.freedom - square)
        return numerator / np.square(self.freedom + square) / self.scale**2

    def tilted_moments(self, mean, variance, near=None):
        """Return None: moments are not known."""

    def derivatives(self, f):
        return self.gradient(f), self.curvature(f)

    def fisher_information(self, f):
        ratio = (self.freedom + 1.0) / (self.freedom + 3.0)
        return np.full_like(f, ratio / self.scale**2)


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize("n", [1, 2, 30])
def test_the_mean_is_the_mode(link, n, rng):
    prior, likelihood = prior_of_a_process(n), link(rng.integers(0, 2, size=n))
    q = PRECISE.fit(prior, likelihood)
    assert_allclose(slope(prior, likelihood, q.mean), 0.0, atol=1e-8)
    assert_allclose(q.precision, likelihood.curvature(q.mean), rtol=1e-6)


def test_the_default_tolerance_leaves_little(rng):
    prior, likelihood = prior_of_a_process(40), BernoulliProbit(rng.integers(0, 2, size=40))
    assert_allclose(Laplace().fit(prior, likelihood).mean, PRECISE.fit(prior, likelihood).mean, atol=1e-2)


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
def test_log_evidence_is_the_formula_at_the_mode(link, rng):
    """log p(y|f^) - (f^ - m)' K^-1 (f^ - m) / 2 - log|I + K W| / 2."""
    prior, likelihood = prior_of_a_process(12), link(rng.integers(0, 2, size=12))
    q = PRECISE.fit(prior, likelihood)
    K, deviation = covariance_of_a_process(12), q.mean - prior.mean
    determinant = np.linalg.slogdet(np.eye(12) + K * likelihood.curvature(q.mean))[1]
    quadratic = deviation @ np.linalg.solve(K, deviation)
    expected = likelihood.log_likelihood(q.mean) - 0.5 * quadratic - 0.5 * determinant
    assert q.log_evidence == pytest.approx(expected, abs=1e-6)


def test_a_gaussian_likelihood_is_exact(rng):
    prior, y = prior_of_a_process(10), rng.normal(size=10)
    q = Laplace().fit(prior, Normal(y))
    K = covariance_of_a_process(10)
    marginal = multivariate_normal(prior.mean, K + np.eye(10))
    assert q.log_evidence == pytest.approx(marginal.logpdf(y), abs=1e-9)
    weights = q.log_weights(Normal(y), q.sample(rng, 20))
    assert_allclose(weights, marginal.logpdf(y), rtol=1e-9)
    expected = prior.mean + K @ np.linalg.solve(K + np.eye(10), y - prior.mean)
    assert_allclose(q.mean, expected, rtol=1e-9)


def exact_log_evidence(prior: DensePrior, y: np.ndarray) -> float:
    """Probit, n = 1 or 2, by summation on a grid."""
    n, K = len(y), prior.covariance
    grid = np.linspace(-20.0, 20.0, 1001)
    f = np.stack(np.meshgrid(*[grid] * n, indexing="ij"), axis=-1)
    terms = multivariate_normal(prior.mean, K).logpdf(f) + log_ndtr((2 * y - 1) * f).sum(axis=-1)
    return float(logsumexp(terms) + n * np.log(grid[1] - grid[0]))


@pytest.mark.parametrize(("n", "tolerance"), [(1, 0.04), (2, 0.08)])
def test_log_evidence_is_near_the_truth(n, tolerance):
    for bits in np.ndindex(*[2] * n):
        prior, y = prior_of_a_process(n, variance=1.5), np.array(bits)
        q = Laplace().fit(prior, BernoulliProbit(y))
        assert q.log_evidence == pytest.approx(exact_log_evidence(prior, y), abs=tolerance)


@pytest.mark.parametrize("n", [50, 200])
def test_log_evidence_is_near_the_low_rank_truth(n):
    """With little noise the data speak of one direction only, in which the posterior is narrow."""
    prior, y, truth = low_rank_problem(n, noise=0.05)
    q = Laplace().fit(prior, BernoulliProbit(y))
    assert q.log_evidence == pytest.approx(truth, abs=0.02)


STARTS = {
    "near": lambda n: np.full(n, 0.2),
    "far": lambda n: np.full(n, 30.0),
    "absurd": lambda n: np.full(n, 1e6),
    "alternating": lambda n: 1e6 * (-1.0) ** np.arange(n),
}
NOT_FINITE = {
    "infinite": lambda n: np.full(n, np.inf),
    "nan": lambda n: np.full(n, np.nan),
    "one nan": lambda n: np.where(np.arange(n) == 3, np.nan, 0.0),
}


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
@pytest.mark.parametrize("start", [*STARTS, *NOT_FINITE])
def test_every_start_leads_to_the_same_mode(link, start, rng):
    n = 15
    prior, likelihood = prior_of_a_process(n), link(rng.integers(0, 2, size=n))
    expected = PRECISE.fit(prior, likelihood)
    given = PRECISE.fit(prior, likelihood, start=(STARTS | NOT_FINITE)[start](n))
    assert_allclose(given.mean, expected.mean, atol=1e-8)
    assert given.log_evidence == pytest.approx(expected.log_evidence, abs=1e-6)
    # A start that turns out worse than the prior mean costs one factorization and is given up.
    assert given.iterations <= expected.iterations + 1


def test_a_start_at_the_mode_saves_factorizations(rng):
    prior, likelihood = prior_of_a_process(15), BernoulliProbit(rng.integers(0, 2, size=15))
    cold = Laplace().fit(prior, likelihood)
    with counted() as counts:
        warm = Laplace().fit(prior, likelihood, start=cold.mean)
    assert counts.total.cholesky == warm.iterations == 1
    assert cold.iterations > warm.iterations


def outliers() -> tuple[DensePrior, StudentT]:
    """Observations that contradict each other: the curvature is negative where Newton starts."""
    return prior_of_a_process(3, variance=20.0), StudentT(np.array([-5.0, -6.0, 2.0]))


def test_a_likelihood_that_is_not_log_concave_converges():
    prior, likelihood = outliers()
    assert np.any(likelihood.curvature(prior.mean) < 0.0)
    q = PRECISE.fit(prior, likelihood)
    assert q.iterations < PRECISE.max_iterations
    assert_allclose(slope(prior, likelihood, q.mean), 0.0, atol=1e-6)
    assert np.all(q.precision > 0.0)


def test_without_damping_it_does_not(monkeypatch):
    prior, likelihood = outliers()
    monkeypatch.setattr(laplace, "damped", lambda likelihood, m, current, reached: reached)
    q = PRECISE.fit(prior, likelihood)
    assert q.iterations == PRECISE.max_iterations
    assert np.abs(slope(prior, likelihood, q.mean)).max() > 1.0


@pytest.mark.parametrize("link", [BernoulliProbit, BernoulliLogit])
def test_a_refined_approximation_is_consistent(link, rng):
    """Mean and factor belong to the sites, and the importance weights to q."""
    prior, likelihood = prior_of_a_process(9), link(rng.integers(0, 2, size=9))
    laplace = Laplace()
    evidence = laplace.fit(prior, likelihood).log_evidence
    q = laplace.refine(laplace.fit(prior, likelihood), likelihood)
    precision = np.linalg.inv(prior.covariance) + np.diag(q.precision)
    linear = np.linalg.solve(prior.covariance, prior.mean) + q.linear
    assert_allclose(q.mean, np.linalg.solve(precision, linear), rtol=1e-8)
    f = q.sample(rng, 4)
    joint = likelihood.log_likelihood(f) + [prior.log_density(row) for row in f]
    expected = joint - multivariate_normal(q.mean, np.linalg.inv(precision)).logpdf(f)
    assert_allclose(q.log_weights(likelihood, f), expected, rtol=1e-8)
    assert q.log_evidence == evidence


def test_a_covariance_with_nan_has_no_approximation():
    covariance = np.asfortranarray(covariance_of_a_process(5))
    covariance[3, 1] = np.nan
    assert Laplace().fit(DensePrior(np.zeros(5), covariance), BernoulliProbit(np.ones(5, dtype=int))) is None


@pytest.mark.parametrize("settings", [{"tolerance": 0.0}, {"tolerance": np.nan}, {"max_iterations": 0}, {"sweeps": -1}])
def test_settings_out_of_range_are_refused(settings):
    [(name, _)] = settings.items()
    with pytest.raises(ValueError, match=name):
        Laplace(**settings)


def test_a_damped_step_stays_on_the_line_and_knows_its_objective():
    """Halfway in f is halfway in a = K^-1 (f - m), which the objective is computed from."""
    mean, covariance = np.array([0.2, -0.4]), np.array([[1.5, 0.6], [0.6, 0.9]])
    likelihood = LogGaussianCox(np.array([2, 0]))

    def at(f: np.ndarray) -> laplace.Iterate:
        a = np.linalg.solve(covariance, f - mean)
        return laplace.Iterate(f, a, float(likelihood.log_likelihood(f)) - 0.5 * float(a @ (f - mean)))

    current, overshot = at(np.array([0.4, -0.8])), at(np.array([5.0, 1.0]))
    assert overshot.objective < current.objective
    damped = laplace.damped(likelihood, mean, current, overshot)
    assert damped.objective >= current.objective - 1e-6
    assert 0.0 < (damped.f - current.f)[0] < 5.0
    expected = at(damped.f)
    assert_allclose(damped.a, expected.a, rtol=1e-12)
    assert damped.objective == pytest.approx(expected.objective, rel=1e-12)


@pytest.mark.parametrize(
    ("noise", "resolved"),
    [(1e-4, True), (1e-5, True), (1e-6, False), (np.geomspace(1e-6, 100.0, 200), True)],
    ids=["4", "5", "6", "mixed"],
)
def test_sharp_sites_cost_no_digits(noise, resolved, rng):
    """With little noise, y and f have nearly all digits in common, and so have terms that the evidence subtracts."""
    x = np.linspace(0.0, 3.0, 200)
    r = np.sqrt(3.0) * np.abs(x[:, None] - x) / 1.3
    K = np.asfortranarray(4.0 * (1.0 + r) * np.exp(-r) + 1e-6 * np.eye(200))
    y = 0.3 + np.linalg.cholesky(K) @ rng.standard_normal(200) + noise * rng.standard_normal(200)
    factor = np.linalg.cholesky(K + np.diag(np.broadcast_to(np.square(noise), 200)))
    expected = norm.logpdf(np.linalg.solve(factor, y - 0.3)).sum() - np.log(factor.diagonal()).sum()
    found = PRECISE.fit(DensePrior(np.full(200, 0.3), K), Normal(y, noise))
    assert_allclose((found.mean - y) / noise, np.zeros(200), atol=6.0)
    assert found.resolved == resolved
    assert_allclose(found.log_evidence, expected, atol=1e-2 if resolved else 1.0)


@pytest.mark.parametrize(("offset", "resolved"), [(1e3, True), (1e9, False)])
def test_a_prior_mean_with_all_digits_leaves_none_for_the_evidence(offset, resolved, rng):
    prior = DensePrior(np.full(30, offset), np.asfortranarray(covariance_of_a_process(30)))
    assert PRECISE.fit(prior, Normal(offset + rng.standard_normal(30), 0.1)).resolved == resolved
