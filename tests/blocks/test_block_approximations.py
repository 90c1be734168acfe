"""Laplace's method, expectation propagation and estimates from them, for several latent vectors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris

from pmgp.core.approximations import ExpectationPropagation, Laplace, block_propagation
from pmgp.core.approximations.block_matching import block_cavities, matched_blocks
from pmgp.core.estimators import AnnealedImportanceSampling, ImportanceSampling
from pmgp.core.gaussians import BlockConditioning, BlockPrior, DensePrior
from pmgp.core.likelihoods import BernoulliLogit, MultinomialLogit
from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.likelihoods.impossible import Impossible
from pmgp.core.numerics import block_shrinkage, linalg
from pmgp.core.numerics.block_matrices import DenseBlocks
from pmgp.core.numerics.ledger import counted
from tests.blocks.problems import classification, kernel, rank_one
from tests.truths import standard_errors_from

TIGHT = {"laplace": Laplace(tolerance=1e-20, sweeps=0), "ep": ExpectationPropagation(tolerance=1e-12)}
both_approximations = pytest.mark.parametrize("name", list(TIGHT))


class DenseMultinomialLogit(MultinomialLogit):
    """The same likelihood, its sites as any others: by one factorization of C n rows."""

    site_form = DenseBlocks

    def derivatives(self, f):
        gradient, curvature = super().derivatives(f)
        return gradient, DenseBlocks.nearest(curvature.blocks)


def with_dense_sites(likelihood: MultinomialLogit) -> DenseMultinomialLogit:
    return DenseMultinomialLogit(likelihood.counts.T, len(likelihood.counts))


@both_approximations
def test_two_classes_are_a_logistic_regression_with_twice_the_covariance(name):
    prior, _ = classification(40, 2)
    part = prior.parts[0]
    y = (part.sample(np.random.default_rng(1), 1)[0] > 0).astype(int)
    doubled = DensePrior(2.0 * part.mean, np.asfortranarray(2.0 * part.covariance))
    one, two = (
        TIGHT[name].fit(doubled, BernoulliLogit(y)),
        TIGHT[name].fit(BlockPrior([part, part]), MultinomialLogit(y)),
    )
    assert_allclose(two.log_evidence, one.log_evidence, rtol=1e-9)
    assert_allclose(two.mean[40:] - two.mean[:40], one.mean, atol=1e-5)
    variance = two.marginals[:, 0, 0] + two.marginals[:, 1, 1] - 2.0 * two.marginals[:, 0, 1]
    assert_allclose(variance, one.variance, atol=1e-5)


@both_approximations
def test_structured_sites_give_what_dense_ones_do(name):
    """With three classes, where the structured form loses nothing."""
    prior, likelihood = classification(25, 3, means=True)
    own, dense = (TIGHT[name].fit(prior, one) for one in (likelihood, with_dense_sites(likelihood)))
    assert_allclose(own.log_evidence, dense.log_evidence, rtol=1e-7)
    assert_allclose(own.mean, dense.mean, atol=1e-4)
    assert_allclose(own.variance, dense.variance, atol=1e-4)
    f = prior.sample(np.random.default_rng(2), 3)
    assert_allclose(own.log_weights(likelihood, f), dense.log_weights(likelihood, f), atol=1e-3)


@both_approximations
def test_permuted_classes_are_the_same_problem(name):
    """With nodes that are not symmetric in the classes, up to their accuracy."""
    prior, likelihood = classification(20, 4)
    order = [2, 0, 3, 1]
    permuted = MultinomialLogit(likelihood.counts.T[:, order])
    one = TIGHT[name].fit(prior, likelihood)
    other = TIGHT[name].fit(BlockPrior([prior.parts[c] for c in order]), permuted)
    assert_allclose(other.log_evidence, one.log_evidence, rtol=1e-3)
    assert_allclose(other.mean.reshape(4, -1), one.mean.reshape(4, -1)[order], atol=0.05)


def test_newton_finds_the_mode():
    prior, likelihood = classification(30, 5, means=True)
    q = TIGHT["laplace"].fit(prior, likelihood)
    assert_allclose(likelihood.gradient(q.mean) - prior.solve(q.mean - prior.mean), 0.0, atol=1e-6)
    assert_allclose(q.precision.blocks, likelihood.derivatives(q.mean)[1].blocks, atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 8.0, -30.0])
def test_newton_converges_from_anywhere(offset):
    prior, likelihood = classification(30, 3)
    start = prior.mean + offset * np.repeat([1.0, -1.0, 0.5], 30)
    q, expected = (
        Laplace(tolerance=1e-20, sweeps=0).fit(prior, likelihood, start),
        TIGHT["laplace"].fit(prior, likelihood),
    )
    assert_allclose(q.mean, expected.mean, atol=1e-7)


def test_a_newton_step_needs_one_factorization_more_than_there_are_classes():
    prior, likelihood = classification(12, 4)
    with counted() as ledger:
        q = Laplace(sweeps=0).fit(prior, likelihood)
    assert (ledger.total.cholesky, ledger.total.inverse) == (5 * q.iterations, 4 * q.iterations)
    assert ledger.total.matmul == 0


def test_propagation_has_the_moments_of_the_tilted_densities():
    prior, likelihood = classification(20, 3, means=True)
    q = TIGHT["ep"].fit(prior, likelihood)
    cavity = block_cavities(q, likelihood.contrasts)
    tilted = likelihood.tilted_moments(
        cavity.mean, cavity.covariance, (cavity.marginal_mean, cavity.marginal_covariance)
    )
    assert_allclose(tilted.mean, cavity.marginal_mean, atol=1e-4)
    assert_allclose(tilted.covariance, cavity.marginal_covariance, atol=1e-4)


def test_evidence_of_propagation_is_stationary_in_its_sites():
    """As it is where they match; and so it is not where they do not."""
    prior, likelihood = classification(15, 3)
    q = TIGHT["ep"].fit(prior, likelihood)
    direction = np.random.default_rng(0).normal(size=(3, 15))
    direction = (direction - direction.mean(axis=0)).ravel()

    def evidence(at, step):
        sites = replace(at, linear=at.linear + step * direction)
        return matched_blocks(_conditioned(sites), likelihood).log_evidence

    def slope(at):
        return (evidence(at, 1e-3) - evidence(at, -1e-3)) / 2e-3

    assert abs(slope(q)) < 1e-4
    assert abs(slope(TIGHT["laplace"].fit(prior, likelihood))) > 1e-3


def _conditioned(q):
    conditioned = BlockConditioning(q.prior)
    assert conditioned.on(q.linear, q.precision)
    return conditioned.approximation(0.0, 0)


@pytest.mark.parametrize(("approximation", "within"), [(TIGHT["laplace"], 1.0), (TIGHT["ep"], 0.03)])
def test_evidence_is_near_the_integral(approximation, within):
    prior, likelihood, truth = rank_one(25, (1.5, 0.7, 2.5))
    assert abs(approximation.fit(prior, likelihood).log_evidence - truth) < within


ESTIMATORS = [
    (Laplace(sweeps=0), ImportanceSampling(64)),
    (Laplace(), ImportanceSampling(16)),
    (ExpectationPropagation(), ImportanceSampling(4)),
    (ExpectationPropagation(), AnnealedImportanceSampling(temperatures=(0.0, 0.3, 1.0))),
]


def relative_estimates(approximation, estimator, number: int = 400, seed: int = 0) -> np.ndarray:
    prior, likelihood, truth = rank_one(25, (1.5, 0.7, 2.5))
    q = approximation.refine(approximation.fit(prior, likelihood), likelihood)
    rng = np.random.default_rng(seed)
    return np.exp([estimator.estimate(rng, q, likelihood).log_evidence - truth for _ in range(number)])


@pytest.mark.parametrize(("approximation", "estimator"), ESTIMATORS)
def test_estimates_are_unbiased(approximation, estimator):
    assert standard_errors_from(relative_estimates(approximation, estimator), 1.0) < 4.0


def test_without_the_determinant_of_the_sum_they_are_not(monkeypatch):
    """Algorithm 3.3 of Rasmussen and Williams leaves log|M| out."""
    original = block_shrinkage.ContrastShrinkage.of

    def broken(covariances, scale):
        found = original(covariances, scale)
        return replace(found, log_determinant=found.log_determinant - linalg.log_determinant(found.factor))

    monkeypatch.setattr(block_shrinkage.ContrastShrinkage, "of", broken)
    assert standard_errors_from(relative_estimates(Laplace(), ImportanceSampling(16)), 1.0) > 10.0


def test_without_the_common_part_of_the_sites_they_are_not(monkeypatch):
    """Draws as if the sites were diagonal are those of another q than the one that they are weighed with."""

    def broken(self, u, e):
        e[:] = np.sqrt(self.scale)[:, None, :] * e - self.scale[:, None, :] * u

    monkeypatch.setattr(block_shrinkage.ContrastShrinkage, "_balance", broken)
    assert standard_errors_from(relative_estimates(Laplace(), ImportanceSampling(16), 1600), 1.0) > 4.0


def test_conditional_estimates_keep_the_particle():
    prior, likelihood = classification(10, 3)
    q = ExpectationPropagation().fit(prior, likelihood)
    retained = q.sample(np.random.default_rng(0), 1)[0]
    estimate = ImportanceSampling(8).estimate_given(np.random.default_rng(1), q, likelihood, retained)
    assert_allclose(estimate.particles[0], retained)
    assert estimate.particles.shape == (8, 30)


def test_a_predicted_start_saves_sweeps():
    prior, likelihood = classification(30, 4)
    ep = ExpectationPropagation()
    first = ep.fit(prior, likelihood)
    again = ep.fit(prior, likelihood, ep.start_from(first))
    assert again.iterations < first.iterations
    assert_allclose(again.log_evidence, first.log_evidence, atol=0.1)


def test_a_poor_start_is_given_up():
    prior, likelihood = classification(30, 3)
    ep = ExpectationPropagation()
    first = ep.fit(prior, likelihood)
    poor = ep.start_from(first) + np.random.default_rng(0).normal(size=180) * 30.0
    assert_allclose(ep.fit(prior, likelihood, poor).log_evidence, first.log_evidence)


def test_propagation_that_does_not_converge_is_laplaces():
    prior, likelihood = classification(15, 3)
    q = ExpectationPropagation(tolerance=1e-9, max_sweeps=1).fit(prior, likelihood)
    assert not q.converged
    assert_allclose(q.log_evidence, Laplace().fit(prior, likelihood).log_evidence)


@pytest.mark.parametrize("spread", [-1e9, np.nan])
def test_a_divergence_below_zero_is_no_small_change(monkeypatch, spread):
    """It is what rounding makes of numbers that have grown too large."""
    prior, likelihood = classification(15, 3)
    asked = block_propagation._required_change
    monkeypatch.setattr(block_propagation, "_required_change", lambda q, matched: (asked(q, matched)[0], spread))
    assert not ExpectationPropagation().fit(prior, likelihood).converged


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_q_is_that_of_its_sites(classes):
    """Though its last mean was found without conditioning on them, and the last sites that match are others."""
    prior, likelihood = classification(30, classes)
    ep = ExpectationPropagation()
    first = ep.fit(prior, likelihood)
    predicted = ep.start_from(first)
    for q in (first, ep.fit(prior, likelihood, predicted)):
        conditioned = BlockConditioning(prior)
        assert conditioned.on(q.linear, q.precision)
        expected = conditioned.approximation(0.0, 0)
        assert_allclose(q.mean, expected.mean, atol=1e-10)
        assert_allclose(q.marginals, expected.marginals, atol=1e-10)
        assert_allclose(q.log_normalizer, expected.log_normalizer, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3, 5])
@pytest.mark.parametrize("tolerance", [0.3, 0.05, 1e-3])
def test_where_sweeps_end_they_would_not_move_q_further(classes, tolerance):
    """By the divergence of another q that is conditioned on the sites that match."""
    prior, likelihood = classification(30, classes)
    q = ExpectationPropagation(tolerance=tolerance).fit(prior, likelihood)
    matched = matched_blocks(q, likelihood, block_propagation.SHARE)
    conditioned = BlockConditioning(prior)
    assert conditioned.on(matched.linear, matched.precision)
    moved = conditioned.approximation(0.0, 0)
    assert 0.0 < block_propagation._divergence(q, moved) < 1.5 * tolerance


def test_sites_that_overshoot_together_are_found_by_shorter_steps(monkeypatch):
    """Those of irises: with steps all the way, and none shorter, sweeps do not end."""
    x, y = load_iris(return_X_y=True)
    standardized = (x - x.mean(axis=0)) / x.std(axis=0)
    prior = BlockPrior([DensePrior(np.zeros(150), kernel(standardized, 100.0, 3.0))] * 3)
    likelihood = MultinomialLogit(y)
    assert ExpectationPropagation(max_sweeps=15).fit(prior, likelihood).converged
    monkeypatch.setattr(block_propagation, "FIRST_STEP", 1.0)
    monkeypatch.setattr(block_propagation, "_secant_step", lambda *known: 1.0)
    assert not ExpectationPropagation().fit(prior, likelihood).converged


def test_nearby_fits_start_from_the_sites_that_match():
    """And not from those of q, which what was predicted would be learned from again."""
    prior, likelihood = classification(30, 3)
    ep = ExpectationPropagation()
    q = ep.fit(prior, likelihood)
    linear, precision = q.matching
    assert_allclose(ep.start_from(q), np.concatenate([linear, precision.parameters]))
    assert np.abs(linear - q.linear).max() > 1e-6


def test_labels_have_no_probability_above_one():
    """Where the variance is large, sweeps over the irises end in overflow."""
    x, y = load_iris(return_X_y=True)
    standardized = (x - x.mean(axis=0)) / x.std(axis=0)
    part = DensePrior(np.zeros(150), kernel(standardized, np.exp(8.82488144), np.exp(0.95399911)))
    q = ExpectationPropagation().fit(BlockPrior([part] * 3), MultinomialLogit(y))
    assert -100.0 < q.log_evidence < 0.0


def test_an_impossible_likelihood_has_no_evidence():
    class ImpossibleBlocks(Impossible):
        site_form, contrasts = DenseBlocks, np.eye(3)

        def derivatives(self, f):
            return np.zeros(f.shape), DenseBlocks.nearest(np.zeros((10, 3, 3)))

        def tilted_moments(self, mean, covariance, near=None):
            return BlockMoments(np.full_like(mean, np.nan), np.full_like(covariance, np.nan), np.full(10, -np.inf))

    prior, _ = classification(10, 3)
    assert ExpectationPropagation().fit(prior, ImpossibleBlocks("nothing")).log_evidence == -np.inf


@both_approximations
def test_a_covariance_that_rounding_makes_indefinite_gives_no_evidence(name):
    """It was 2e12 for three classes with deviations of a million."""
    x = np.linspace(0.0, 3.0, 20)
    unit, jitter = np.exp(-0.5 * np.square(x[:, None] - x)), 1e-6 * np.eye(20)
    likelihood = MultinomialLogit(np.arange(20) % 3)
    for deviation in (1e5, 1e6, 1e7, 1e8):
        prior = BlockPrior([DensePrior(np.zeros(20), np.asfortranarray(deviation**2 * unit + jitter))] * 3)
        q = {"laplace": Laplace(), "ep": ExpectationPropagation()}[name].fit(prior, likelihood)
        assert q is None or not q.resolved or q.log_evidence < 0.0


@both_approximations
def test_a_covariance_that_is_no_number_gives_none(name):
    prior, likelihood = classification(5, 3)
    broken = DensePrior(np.zeros(5), np.full((5, 5), np.nan, order="F"))
    assert TIGHT[name].fit(BlockPrior([*prior.parts[:2], broken]), likelihood) is None
