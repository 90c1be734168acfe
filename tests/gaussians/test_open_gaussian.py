"""A kind of Gaussian from outside of the package takes the place of the dense one, or is refused in words."""

from __future__ import annotations

from dataclasses import dataclass

import arviz as az
import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import (
    AnnealedImportanceSampling,
    ImportanceSampling,
    OrthantSampling,
    SequentialSampling,
)
from pmgp.core.gaussians import DensePrior, UnsupportedError
from pmgp.core.latent_updates.elliptical_slice import EllipticalSliceUpdate
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.evidence_gradient import screen_gradient
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.transitions.mixture import LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests.gaussians.low_rank import LowRankPrior
from tests.truths import ScaledLowRank, low_rank_problem

EXACT = {"laplace": Laplace(tolerance=1e-22), "ep": ExpectationPropagation(tolerance=1e-13, max_sweeps=300)}
LIKELIHOODS = [BernoulliProbit, BernoulliLogit]
N, RANK = 25, 3


def parts(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean, D, U and labels."""
    rng = np.random.default_rng(seed)
    mean, diagonal, factors = rng.normal(size=N), rng.uniform(0.1, 1.0, N), rng.normal(size=(N, RANK))
    return mean, diagonal, factors, rng.integers(0, 2, N)


def dense(prior: LowRankPrior) -> DensePrior:
    covariance = np.diag(prior.diagonal) + prior.factors @ prior.factors.T
    return DensePrior(prior.mean, np.asfortranarray(covariance))


class Blind(LowRankPrior):
    """A broken twin, whose posterior covariance leaves out what the low rank adds to it."""

    def shrinkage(self, precision):
        found = super().shrinkage(precision)
        found.half_left = 0.9 * found.half_left
        return found


@pytest.mark.parametrize("sites", LIKELIHOODS)
@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("kind", [LowRankPrior, pytest.param(Blind, marks=pytest.mark.xfail(strict=True))])
def test_approximations_are_those_of_the_same_matrix(kind, method, sites):
    mean, diagonal, factors, y = parts()
    prior, likelihood = kind(mean, diagonal, factors), sites(y)
    q, other = (EXACT[method].fit(one, likelihood) for one in (prior, dense(prior)))
    assert q.converged
    assert q.log_evidence == pytest.approx(other.log_evidence, abs=1e-10)
    refined, expected = (EXACT[method].refine(one, likelihood) for one in (q, other.factorized()))
    f = np.random.default_rng(1).normal(size=(4, N))
    for one, same in ((q, other), (refined, expected)):
        assert_allclose(one.mean, same.mean, rtol=1e-7, atol=1e-7)
        assert_allclose(one.variance, same.variance, rtol=1e-7)
        assert_allclose(one.product(f.T), same.product(f.T), rtol=1e-7, atol=1e-7)
        assert_allclose(one.log_weights(likelihood, f), same.log_weights(likelihood, f), rtol=1e-7)


@pytest.mark.parametrize("method", EXACT)
def test_a_start_that_is_described_by_q_is_as_good(method):
    mean, diagonal, factors, y = parts()
    prior, likelihood = LowRankPrior(mean, diagonal, factors), BernoulliProbit(y)
    q = EXACT[method].fit(prior, likelihood)
    again = EXACT[method].fit(prior, likelihood, EXACT[method].start_from(q))
    assert again.iterations < q.iterations
    assert again.log_evidence == pytest.approx(q.log_evidence, abs=1e-10)


@pytest.mark.parametrize("method", EXACT)
def test_a_matrix_with_nan_in_it_has_no_approximation(method):
    mean, diagonal, factors, y = parts()
    assert (
        EXACT[method].fit(LowRankPrior(mean, np.where(diagonal > 0.5, np.nan, 0.5), factors), BernoulliProbit(y))
        is None
    )


def test_draws_have_the_moments_that_they_state():
    mean, diagonal, factors, y = parts()
    prior = LowRankPrior(mean, diagonal, factors)
    q = EXACT["ep"].fit(prior, BernoulliProbit(y))
    identity, zeros = np.eye(N), np.zeros((N, N))
    root = prior.deviations_from(identity)
    assert_allclose(root.T @ root, prior.product(identity), rtol=1e-10, atol=1e-10)
    halves = [q.deviations_from(np.array(pair)) for pair in ((identity, zeros), (zeros, identity))]
    assert_allclose(sum(half.T @ half for half in halves), q.product(identity), rtol=1e-10, atol=1e-10)


@dataclass
class Scaled:
    """Theta is the log of a scale of K = scale (x x' + noise I), with a standard normal prior."""

    y: np.ndarray
    factors: np.ndarray
    noise: float = 0.3
    kind: type = LowRankPrior
    likelihood_elements = ()

    def log_prior(self, theta):
        return -0.5 * float(theta @ theta)

    def log_prior_gradient(self, theta):
        return -theta

    def prior(self, theta):
        scale, n = np.exp(theta[0]), len(self.factors)
        return self.kind(np.full(n, 0.0), np.full(n, scale * self.noise), np.sqrt(scale) * self.factors)

    def likelihood(self, theta):
        return BernoulliProbit(self.y)

    def covariance_pullback(self, theta, covariance_bar, mean_bar):
        prior, (by_diagonal, by_factors) = self.prior(theta), covariance_bar
        return np.array([by_diagonal @ prior.diagonal + 0.5 * np.sum(by_factors * prior.factors)])


class Halved(Scaled):
    """A broken twin, whose pullback forgets that K is quadratic in U."""

    def covariance_pullback(self, theta, covariance_bar, mean_bar):
        by_diagonal, by_factors = covariance_bar
        return super().covariance_pullback(theta, (by_diagonal, 0.5 * by_factors), mean_bar)


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("kind", [Scaled, pytest.param(Halved, marks=pytest.mark.xfail(strict=True))])
def test_gradients_of_the_evidence_are_those_of_finite_differences(kind, method):
    _, _, factors, y = parts()
    model, theta, step = kind(y, factors), np.array([0.4]), 1e-4
    evaluate = Evaluator(model, EXACT[method])
    above, below = (evaluate(theta + shift, None).log_screen for shift in (step, -step))
    assert screen_gradient(evaluate, evaluate(theta, None)) == pytest.approx((above - below) / (2.0 * step), rel=1e-5)


@pytest.mark.parametrize("method", EXACT)
def test_bars_are_those_of_the_same_matrix(method):
    """In directions of D and of U, and in that of the mean."""
    mean, diagonal, factors, y = parts()
    prior, likelihood = LowRankPrior(mean, diagonal, factors), BernoulliProbit(y)
    one, other = (
        EXACT[method].evidence_gradient(EXACT[method].fit(p, likelihood), likelihood) for p in (prior, dense(prior))
    )
    bar = np.tril(other.covariance) + np.tril(other.covariance, -1).T
    assert_allclose(one.covariance[0], np.diag(bar), rtol=1e-6, atol=1e-6)
    assert_allclose(one.covariance[1], 2.0 * bar @ factors, rtol=1e-6, atol=1e-6)
    assert_allclose(one.mean, other.mean, rtol=1e-6, atol=1e-6)


class Tilted(LowRankPrior):
    """A broken twin, whose determinants are off by a factor that depends on theta."""

    def shrinkage(self, precision):
        found = super().shrinkage(precision)
        found.log_determinant *= 0.6
        return found


def standard_errors(estimator, kind, approximation, number: int = 400) -> float:
    """Distance of the mean estimate from the evidence."""
    given, y, log_evidence = low_rank_problem(8)
    x = np.random.default_rng(0).normal(size=8)
    prior, likelihood = kind(np.zeros(8), np.full(8, 0.3), x[:, None]), BernoulliProbit(y)
    assert_allclose(dense(prior).covariance, given.covariance)
    q = approximation.refine(approximation.fit(prior, likelihood), likelihood)
    rng = np.random.default_rng(5)
    logs = [estimator.estimate(rng, q, likelihood).log_evidence for _ in range(number)]
    ratios = np.exp(np.array(logs) - log_evidence)
    return abs(ratios.mean() - 1.0) / (ratios.std() / np.sqrt(number))


@pytest.mark.parametrize(
    "estimator",
    [
        ImportanceSampling(4),
        ImportanceSampling(3, antithetic=False),
        AnnealedImportanceSampling(),
        AnnealedImportanceSampling(start="prior"),
    ],
    ids=["pairs", "single", "annealed", "annealed-from-the-prior"],
)
@pytest.mark.parametrize("method", EXACT)
def test_estimates_are_unbiased(estimator, method):
    assert standard_errors(estimator, LowRankPrior, EXACT[method]) < 3.5


@pytest.mark.parametrize("estimator", [ImportanceSampling(4), AnnealedImportanceSampling()])
def test_the_test_of_unbiasedness_rejects_a_broken_twin(estimator):
    assert standard_errors(estimator, Tilted, EXACT["ep"]) > 5.0


def chain(kind: type, iterations: int = 5000) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the log scale, and the exact mean and variance."""
    truth = ScaledLowRank(10)
    model = Scaled(truth.y, np.random.default_rng(0).normal(size=10)[:, None], kind=kind)
    assert_allclose(dense(model.prior(np.zeros(1))).covariance, truth.covariance)
    evaluate, scheme = Evaluator(model, Laplace()), PseudoMarginalChain(estimator=ImportanceSampling(2))
    proposal = AdaptiveProposal(1, independence=0.5, location=np.zeros(1), factor=np.eye(1))
    frozen = Frozen(LearnedMixture.fixed(proposal), None, 2)
    current = ScreenDensity(evaluate, None).at(np.zeros(1))
    current = current._replace(payload=evaluate.prepare(current.payload))
    rng, draws = np.random.default_rng(3), np.empty(iterations)
    state = scheme.init(rng, current.payload, frozen)
    for index in range(iterations):
        state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        draws[index] = state.theta[0]
    weights = np.exp(truth.log_likelihood - truth.log_likelihood.max() - 0.5 * truth.grid**2)
    weights /= weights.sum()
    return draws, np.array([weights @ truth.grid, weights @ truth.grid**2])


def distance(kind: type) -> float:
    """The larger error of the first two moments, in Monte Carlo standard errors."""
    draws, exact = chain(kind)
    pairs = zip((draws, draws**2), exact, strict=True)
    return max(abs(x.mean() - value) / float(az.mcse(x[None, :], method="mean")) for x, value in pairs)


def test_the_exact_chain_agrees_with_quadrature():
    assert distance(LowRankPrior) < 3.5


def test_the_comparison_with_quadrature_rejects_a_broken_twin():
    assert distance(Tilted) > 7.0


def test_elliptical_slices_move_about_it():
    mean, diagonal, factors, y = parts()
    prior, likelihood = LowRankPrior(mean, diagonal, factors), BernoulliProbit(y)
    update = EllipticalSliceUpdate(reference="laplace")
    target, rng = update.prepare(prior, likelihood), np.random.default_rng(0)
    point = update.init(target, mean)
    moved, _ = update.step(rng, point, target)
    assert moved.log_density == pytest.approx(target.log_ratio(moved.position, target.references[0]))
    assert not np.isclose(moved.position, mean).any()


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (OrthantSampling(4), "a LowRankPrior has no factor .* OrthantSampling needs; use estimator"),
        (SequentialSampling(4), "a ShrunkPosterior has no values .* SequentialSampling needs; use estimator"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(estimator, message):
    mean, diagonal, factors, y = parts()
    likelihood = BernoulliProbit(y)
    q = Laplace().fit(LowRankPrior(mean, diagonal, factors), likelihood)
    with pytest.raises(UnsupportedError, match=message):
        estimator.estimate(np.random.default_rng(0), q, likelihood)


@pytest.mark.parametrize(
    "use",
    [
        lambda prior, x: prior.solve(x),
        lambda prior, x: prior.precision_product(x),
        lambda prior, x: prior.log_density(x),
        lambda prior, x: prior.log_density_gradient(x),
        lambda prior, x: prior.whiten(x),
        lambda prior, x: prior.unwhiten(x),
        lambda prior, x: prior.pull(x),
        lambda prior, x: prior.unwhitening_gradient(x, x),
        lambda prior, x: prior.unwhitening_changes(x, x),
        lambda prior, x: prior.fisher_information(x, x),
        lambda prior, x: prior.precision_factor(x),
        lambda prior, x: prior.scaled(2.0),
        lambda prior, x: prior.observed(x),
        lambda prior, x: prior.shrunk(x),
    ],
)
def test_every_method_that_a_kind_leaves_out_says_what_to_use(use):
    mean, diagonal, factors, _ = parts()
    with pytest.raises(UnsupportedError, match=r"a LowRankPrior has no .*; use "):
        use(LowRankPrior(mean, diagonal, factors), mean)
