"""Sites over linear predictors, with a sparse precision or a covariance: against dense algebra and quadrature."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import sparse

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.approximations.block_propagation import propagated_from_prior
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior, DesignPrior, IndependentPrior
from pmgp.core.likelihoods.coupled_sites import CoupledLikelihood, RepeatedSites
from pmgp.core.likelihoods.shared_sites import SharedSites
from pmgp.core.markov import CoupledPrecisionPrior, PathSampling, SparsePattern
from pmgp.core.markov.soft_sums import SoftSumPattern
from pmgp.core.numerics.block_matrices import DenseBlocks, stacked

GROUPS, DEVIATIONS = 3, np.array([0.8, 0.5])
GROUP = np.array([0, 0, 0, 1, 1, 1, 1, 2, 2, 2])
Y = np.array([0.3, -1.1, 0.8, 1.9, 0.4, 2.5, 1.2, -0.6, -0.2, -1.4])
SHARED = 0.3


class Normal:
    """N(y_i|mu_i, exp(2 h_i)), for the values (mu, h) of each observation."""

    contrasts, site_form, separate = np.eye(2), DenseBlocks, True

    def __init__(self, y: np.ndarray) -> None:
        self.y = y

    def log_density(self, g: np.ndarray) -> np.ndarray:
        mean, log_deviation = np.moveaxis(stacked(g, len(self.y)), -2, 0)
        return -0.5 * ((self.y - mean) * np.exp(-log_deviation)) ** 2 - log_deviation - 0.5 * np.log(2.0 * np.pi)

    def log_likelihood(self, g: np.ndarray) -> np.ndarray:
        return self.log_density(g).sum(axis=-1)

    def gradient(self, g: np.ndarray) -> np.ndarray:
        return self.derivatives(g)[0]

    def derivatives(self, g: np.ndarray) -> tuple[np.ndarray, DenseBlocks]:
        mean, log_deviation = stacked(g, len(self.y))
        r, w = (self.y - mean) * np.exp(-log_deviation), np.exp(-log_deviation)
        blocks = np.array([[w**2, 2.0 * r * w], [2.0 * r * w, 2.0 * r**2]])
        return np.concatenate([r * w, r**2 - 1.0]), DenseBlocks.from_curvature(np.moveaxis(blocks, 2, 0))

    def subset(self, sites: np.ndarray) -> Normal:
        return Normal(self.y[sites])


class Case(NamedTuple):
    prior: CoupledPrecisionPrior | DesignPrior
    likelihood: CoupledLikelihood


def effects(scale: float = 1.0, repeated: bool = True) -> Case:
    """mu = u[group] + 0.3 v[group] and h = v[group]; observations of a group share a site, or have one each."""
    one = np.eye(GROUPS)
    means, scales = (sparse.csr_array(np.hstack(each)) for each in ([one, SHARED * one], [0.0 * one, one]))
    where = GROUP if repeated else np.arange(len(GROUP))
    rows = [sparse.csr_array(each if repeated else each[GROUP]) for each in (means, scales)]
    for each in rows:
        each.eliminate_zeros()
    precision = sparse.diags_array(np.repeat(scale / DEVIATIONS**2, GROUPS))
    pattern = SparsePattern(precision, coupled=rows)
    sites = RepeatedSites(Normal(Y), SharedSites(where, len(np.unique(where))))
    design = sparse.csr_array(sparse.vstack(rows))
    return Case(CoupledPrecisionPrior.centered(pattern, pattern.values(precision)), CoupledLikelihood(sites, design))


@cache
def truth() -> float:
    """log p(y), by quadrature over the two effects of each group."""
    nodes, weights = hermegauss(80)
    u, v = np.meshgrid(DEVIATIONS[0] * nodes, DEVIATIONS[1] * nodes, indexing="ij")
    mass = np.outer(weights, weights) / weights.sum() ** 2
    total = 0.0
    for group in range(GROUPS):
        r = Y[group == GROUP, None, None] - u - SHARED * v
        logs = (-0.5 * (r * np.exp(-v)) ** 2 - v - 0.5 * np.log(2.0 * np.pi)).sum(axis=0)
        total += float(np.log((mass * np.exp(logs)).sum()))
    return total


def miss(estimator, spoil=lambda prior: prior, repeated: bool = True) -> float:
    """The error of the mean of p^ / p over seeds, in standard errors."""
    prior, likelihood = effects(repeated=repeated)
    q = ExpectationPropagation().fit(spoil(prior), likelihood)
    rng = np.random.default_rng(3)
    ratios = np.exp([estimator.estimate(rng, q, likelihood).log_evidence - truth() for _ in range(400)])
    return float(abs(ratios.mean() - 1.0) / (ratios.std() / np.sqrt(len(ratios))))


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize(
    "estimator", [ImportanceSampling(16), PathSampling(16), PathSampling(16, width=2, threshold=1.0)]
)
def test_estimates_are_unbiased(estimator, repeated):
    assert miss(estimator, repeated=repeated) < 3.0


def test_a_twin_with_half_the_precision_of_a_predictor_is_rejected(monkeypatch):
    def halved(self, values, blocks):
        return self.with_sites(values, np.concatenate([blocks[:, 0, 0], 2.0 * blocks[:, 0, 1], 0.5 * blocks[:, 1, 1]]))

    monkeypatch.setattr(SparsePattern, "with_blocks", halved)
    assert miss(PathSampling(16)) > 8.0


def test_a_twin_whose_particles_forget_a_predictor_is_rejected(monkeypatch):
    own = SparsePattern.groups

    def forgetting(self, width):
        return [one._replace(design=first_only(one.design)) for one in own(self, width)]

    def first_only(design):
        return sparse.vstack([design[: design.shape[0] // 2], 0.0 * design[design.shape[0] // 2 :]], format="csr")

    monkeypatch.setattr(SparsePattern, "groups", forgetting)
    assert miss(PathSampling(16)) > 8.0


def test_expectation_propagation_is_close_and_laplace_is_not_far():
    prior, likelihood = effects()
    assert ExpectationPropagation(tolerance=1e-8).fit(prior, likelihood).log_evidence == pytest.approx(
        truth(), abs=0.01
    )
    assert Laplace().fit(prior, likelihood).log_evidence == pytest.approx(truth(), abs=1.5)
    swept = propagated_from_prior(prior, likelihood, 1e-8, 100)
    assert swept is not None
    assert swept.log_evidence == pytest.approx(truth(), abs=0.01)


def test_the_gradient_of_the_evidence_is_that_of_differences():
    fit = ExpectationPropagation(tolerance=1e-10)
    prior, likelihood = effects()
    found = fit.evidence_gradient(fit.fit(prior, likelihood), likelihood)
    above, below = (fit.fit(*effects(1.0 + step)).log_evidence for step in (1e-4, -1e-4))
    assert found.covariance @ prior.values == pytest.approx((above - below) / 2e-4, rel=1e-3)


def random_pattern(rng: np.random.Generator, soft: bool) -> tuple[SparsePattern, np.ndarray, list[np.ndarray]]:
    """A pattern of seven elements and five sites over three values, one of them constant."""
    root = np.tril(rng.normal(size=(7, 7)) * (rng.random((7, 7)) < 0.3)) + 2.0 * np.eye(7)
    precision, direction = root @ root.T, rng.normal(size=7)
    rows = [rng.normal(size=(5, 7)) * (rng.random((5, 7)) < 0.5) for _ in range(3)]
    rows[2][1] = 0.0
    coupled = [sparse.csr_array(one) for one in rows]
    if not soft:
        pattern = SparsePattern(sparse.csc_array(precision), coupled=coupled)
        return pattern, pattern.values(sparse.csc_array(precision)), [precision, *rows]
    pattern = SoftSumPattern(sparse.csc_array(precision), coupled=coupled, direction=direction)
    upper = sparse.csc_array(np.triu(precision)).data
    return pattern, pattern.placed(np.append(upper, 0.7)), [precision + 0.7 * np.outer(direction, direction), *rows]


def dense_prior(mean: np.ndarray, precision: np.ndarray, rows: list[np.ndarray]) -> DesignPrior:
    """With elements above the diagonal that may not be read."""
    covariance = np.asfortranarray(np.tril(np.linalg.inv(precision)) + np.triu(np.full((7, 7), 9.0), 1))
    return DesignPrior(
        IndependentPrior([DensePrior(mean, covariance)]), sparse.csr_array(np.vstack(rows)), vectors=len(rows)
    )


@pytest.mark.parametrize("kind", ["sparse", "soft", "dense"])
def test_conditioning_is_that_of_dense_algebra(kind):
    rng = np.random.default_rng(5)
    pattern, values, (precision, *rows) = random_pattern(rng, kind == "soft")
    state, root = rng.normal(size=7), rng.normal(size=(5, 3, 3))
    blocks, linear = DenseBlocks(root @ root.swapaxes(1, 2) + 0.1 * np.eye(3)), rng.normal(size=15)
    if kind == "dense":
        prior = dense_prior(state, precision, rows)
    else:
        prior = CoupledPrecisionPrior(pattern, values, state, np.zeros(7))
    conditioned = prior.conditioning()
    assert conditioned.on(linear, blocks)
    q, e = conditioned.approximation(0.0, 1), np.vstack(rows)
    w = np.zeros((15, 15))
    for site in range(5):
        w[np.ix_(site + 5 * np.arange(3), site + 5 * np.arange(3))] = blocks.blocks[site]
    covariance = np.linalg.inv(precision + e.T @ w @ e)
    mean = covariance @ (precision @ state + e.T @ linear)
    np.testing.assert_allclose(q.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(q.variance, covariance.diagonal(), rtol=1e-9)
    np.testing.assert_allclose(q.product(np.eye(7)), covariance, rtol=1e-8, atol=1e-12)
    within = (e @ covariance @ e.T).reshape(3, 5, 3, 5)[:, np.arange(5), :, np.arange(5)]
    np.testing.assert_allclose(q.marginals, within, rtol=2e-6, atol=2e-6 * within.max())
    before = (e @ np.linalg.inv(precision) @ e.T).diagonal()
    np.testing.assert_allclose(prior.site_variance, before, rtol=2e-6, atol=2e-6 * before.max())
    cavities = np.linalg.inv(np.linalg.inv(q.marginals) - blocks.blocks)
    sharpest = max(np.linalg.eigvals(blocks.blocks @ cavities).real.ravel())
    assert q.sharpness == pytest.approx(sharpest, rel=1e-4)
    ratio = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(precision + e.T @ w @ e)[1]
    exponent = mean @ (precision @ state + e.T @ linear) - state @ precision @ state
    assert q.log_normalizer == pytest.approx(0.5 * (ratio + exponent), rel=1e-9)


def dense_effects() -> Case:
    """The same as `effects`, with two covariances in place of a precision."""
    likelihood = effects().likelihood
    parts = [DensePrior(np.zeros(GROUPS), np.diag(np.full(GROUPS, deviation**2))) for deviation in DEVIATIONS]
    return Case(DesignPrior(IndependentPrior(parts), likelihood.design, 2), likelihood)


@pytest.mark.parametrize("fit", [Laplace(), ExpectationPropagation()])
def test_a_covariance_gives_what_a_precision_gives(fit):
    sparse_q, dense_q = (fit.fit(*case) for case in (effects(), dense_effects()))
    assert dense_q.log_evidence == pytest.approx(sparse_q.log_evidence, abs=1e-8)
    np.testing.assert_allclose(dense_q.mean, sparse_q.mean, atol=1e-8)
    normals = np.random.default_rng(1).standard_normal((2, 20_000, 6))
    drawn = dense_q.deviations_from(normals)
    np.testing.assert_allclose(np.cov(drawn.T), sparse_q.product(np.eye(6)), atol=0.02)
    likelihood = effects().likelihood
    np.testing.assert_allclose(
        dense_q.log_weights(likelihood, drawn[:5]), sparse_q.log_weights(likelihood, drawn[:5]), atol=1e-7
    )


def test_a_singular_covariance_gets_a_jitter():
    """Two values that are equal, of which sum and difference are observed."""
    covariance, rows = np.asfortranarray(np.ones((2, 2))), np.array([[1.0, 1.0], [1.0, -1.0]])
    prior = DesignPrior(IndependentPrior([DensePrior(np.zeros(2), covariance)]), sparse.csr_array(rows), vectors=1)
    assert prior.factorized().jitter > 0.0
    conditioned, blocks = prior.conditioning(), DenseBlocks(np.array([4.0, 9.0]).reshape(2, 1, 1))
    assert conditioned.on(np.array([1.0, 2.0]), blocks)
    np.testing.assert_allclose(conditioned.mean, [2.0 / 17.0, 2.0 / 17.0], rtol=1e-6)
    assert conditioned.log_determinant == pytest.approx(np.log(17.0), abs=1e-6)


def test_a_covariance_that_cannot_be_factorized_gives_no_q():
    covariance = np.asfortranarray(np.diag([1.0, -1.0]))
    prior = DesignPrior(
        IndependentPrior([DensePrior(np.zeros(2), covariance)]), sparse.csr_array([[1.0, 1.0]]), vectors=1
    )
    assert prior.factorized() is None
    assert np.isnan(prior.site_blocks).all()
    assert not prior.conditioning().on(np.zeros(1), DenseBlocks(np.ones((1, 1, 1))))


def test_draws_have_the_covariance_of_q():
    prior, likelihood = effects()
    q = ExpectationPropagation().fit(prior, likelihood)
    draws = q.sample_deviations(np.random.default_rng(1), 20_000)
    np.testing.assert_allclose(np.cov(draws.T), q.product(np.eye(6)), atol=0.02)
    given = q.deviation_given(np.random.default_rng(1), q.mean + draws[0])
    np.testing.assert_allclose(given, draws[0], rtol=1e-12, atol=1e-14)


def test_the_information_is_the_diagonal_of_the_curvature():
    _, likelihood = effects()
    f = 0.1 * np.arange(6.0)
    blocks, e, total = likelihood.derivatives(f)[1].blocks, likelihood.design.toarray(), np.zeros((6, 6))
    for site, block in enumerate(blocks):
        rows = e[site + GROUPS * np.arange(2)]
        total += rows.T @ block @ rows
    np.testing.assert_allclose(likelihood.fisher_information(f), total.diagonal())
