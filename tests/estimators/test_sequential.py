"""Sequential Monte Carlo over the observations is unbiased, and keeps a path that it is given; particles are exact."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_ndtr

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling, SequentialSampling, sequential
from pmgp.core.gaussians import BlockPrior, Conditioning, DensePrior, SiteApproximation
from pmgp.core.likelihoods import BernoulliProbit, MultinomialLogit
from pmgp.core.numerics.ledger import counted
from tests.truths import low_rank_problem, standard_errors_from

SMALL = SequentialSampling(draws=8, stages=10, threshold=1.0)


def covariance(x: np.ndarray, scale: float) -> np.ndarray:
    return np.asfortranarray(scale * np.exp(-0.5 * np.square(x[:, None] - x)) + 1e-6 * np.eye(len(x)))


def several_classes(variance: float = 30.0):
    """q and likelihood of three classes of eight points, with a variance that makes q a poor fit."""
    x = np.linspace(0.0, 3.0, 8)
    prior = BlockPrior([DensePrior(np.full(8, 0.1 * c), covariance(x, variance + c)) for c in range(3)])
    likelihood = MultinomialLogit(np.array([0, 0, 1, 2, 1, 0, 2, 2]))
    return ExpectationPropagation().fit(prior, likelihood), likelihood


def one_vector():
    prior, y, truth = low_rank_problem(50)
    likelihood = BernoulliProbit(y)
    return Laplace().fit(prior, likelihood), likelihood, truth


@pytest.mark.parametrize("settings", [(1, 1, 0.0), (8, 10, 1.0), (16, 50, 0.5)], ids=str)
def test_estimate_is_unbiased(settings):
    q, likelihood, truth = one_vector()
    estimator, rng = SequentialSampling(*settings), np.random.default_rng(1)
    logs = np.array([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(400)])
    assert standard_errors_from(np.exp(logs - truth), 1.0) < 4.0
    assert np.exp(logs - truth).std() / np.sqrt(400) < 0.05


def evidence(estimator, repetitions: int, seed: int = 2) -> np.ndarray:
    q, likelihood = several_classes()
    rng = np.random.default_rng(seed)
    return np.array([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(repetitions)])


def differ_by(one: np.ndarray, other: np.ndarray) -> float:
    """Standard errors between the means of what was logged."""
    shift = other.max()
    first, second = np.exp(one - shift), np.exp(other - shift)
    error = np.hypot(first.std() / np.sqrt(len(first)), second.std() / np.sqrt(len(second)))
    assert error < 0.03 * second.mean()
    return abs(first.mean() - second.mean()) / error


@pytest.fixture(scope="module")
def by_importance() -> np.ndarray:
    return evidence(ImportanceSampling(4096), 300, seed=3)


def test_estimate_for_several_classes_is_that_of_importance_sampling(by_importance):
    assert differ_by(evidence(SMALL, 4000), by_importance) < 4.0


def test_weights_that_are_forgotten_when_particles_are_resampled_are_rejected(monkeypatch, by_importance):
    right = sequential.ancestors

    def at_random(rng, log_weights, keeps_first):
        return right(rng, np.zeros_like(log_weights), keeps_first)

    monkeypatch.setattr(sequential, "ancestors", at_random)
    assert differ_by(evidence(SMALL, 4000), by_importance) > 6.0


def of_weak_sites(prior: DensePrior) -> SiteApproximation:
    """The prior, but for a rest of sites: a poor q, so that weights vary much."""
    conditioned = Conditioning(prior)
    assert conditioned.on(np.zeros(prior.size), np.full(prior.size, 1e-6))
    return conditioned.approximation(0.0, 0)


def test_estimates_vary_less_than_without_resampling():
    prior = DensePrior(np.zeros(30), covariance(np.linspace(0.0, 6.0, 30), 4.0))
    q, likelihood = of_weak_sites(prior), BernoulliProbit(np.random.default_rng(0).integers(2, size=30))

    def spread(threshold: float) -> float:
        estimator, rng = SequentialSampling(64, 8, threshold), np.random.default_rng(0)
        return float(np.std([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(300)]))

    assert spread(0.5) < 0.7 * spread(0.0)


def test_without_resampling_it_is_importance_sampling():
    q, likelihood = several_classes()
    found = SequentialSampling(draws=100, stages=3, threshold=0.0).estimate(np.random.default_rng(0), q, likelihood)
    log_weights = q.log_weights(likelihood, found.particles)
    assert_allclose(found.log_weights + q.log_normalizer, log_weights, rtol=1e-9)
    weights = np.exp(log_weights - log_weights.max())
    assert found.log_evidence == pytest.approx(np.log(weights.mean()) + log_weights.max(), rel=1e-9)
    assert found.effective_size == pytest.approx(weights.sum() ** 2 / (weights @ weights))


def test_effective_size_says_how_estimates_vary():
    """The variance that one run expects, in the mean over runs, beside that of the runs: within a factor of two."""
    q, likelihood = several_classes(5.0)
    estimator, rng = SequentialSampling(draws=256, stages=8, threshold=0.9), np.random.default_rng(5)
    runs = [estimator.estimate(rng, q, likelihood) for _ in range(400)]
    logs = np.array([run.log_evidence for run in runs])
    expected = np.mean([1.0 / run.effective_size for run in runs]) - 1.0 / 256
    assert 0.5 < expected / np.exp(logs - logs.mean()).var() < 2.0


@pytest.mark.parametrize("kind", ["one", "several"])
def test_the_factor_is_that_of_q(kind):
    q = one_vector()[0] if kind == "one" else several_classes()[0]
    classes = len(q.prior.parts)
    sites, identity = q.site_groups(5), np.eye(q.size)
    whitened, columns = np.zeros((classes, q.size, q.size // classes)), []
    for group in sites.groups:
        sites.grow(group, whitened, identity[:, classes * group.start : classes * group.stop].copy())
        columns.append(sites.values(group, whitened) - group.mean)
    factor = np.concatenate(columns, axis=2).reshape(q.size, q.size).T
    expected = q.product(identity) if kind == "one" else q.shrinkage.product(identity)
    assert_allclose(factor @ factor.T, expected, atol=1e-8 * expected.max())
    # What groups after it are made of changes nothing in a group.
    first = np.arange(q.size).reshape(classes, -1)[:, : sites.groups[0].stop].ravel()
    assert not factor[first, classes * sites.groups[0].stop :].any()
    whitened_again = sites.whitened(q.mean + factor[:, 3])
    assert_allclose(whitened_again, whitened[:, 3], atol=1e-8)


def test_the_groups_are_made_once_for_each_q_and_go_with_it():
    q, likelihood = several_classes()
    assert q.prior.factorized() is q.prior
    with counted() as first:
        SMALL.estimate(np.random.default_rng(0), q, likelihood)
    with counted() as again:
        SMALL.estimate_given(np.random.default_rng(0), q, likelihood, q.mean)
    assert (first.total.cholesky, first.total.matmul) == (1, 9)
    assert again.total.cubic == (0, 0, 0)
    groups = weakref.ref(q.site_groups(SMALL.stages))
    del q
    gc.collect()
    assert groups() is None


def test_terms_of_some_observations_are_those_of_all():
    """The likelihood in parts, and as a whole where it has none."""
    q, likelihood = several_classes()

    class Whole:
        log_density = staticmethod(likelihood.log_density)

    found, expected = (SMALL.estimate(np.random.default_rng(0), q, each) for each in (likelihood, Whole()))
    assert found.log_evidence == pytest.approx(expected.log_evidence)
    assert_allclose(found.particles, expected.particles)


def skewed():
    """Two observations of a wide prior, with means and second moments of f by summation."""
    prior = DensePrior(np.array([-0.5, 0.3]), np.asfortranarray([[9.0, 5.0], [5.0, 8.0]]))
    likelihood = BernoulliProbit(np.array([1, 0]))
    grid = np.linspace(-20.0, 20.0, 801)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    away = np.stack([a - prior.mean[0], b - prior.mean[1]])
    inverse = np.linalg.inv([[9.0, 5.0], [5.0, 8.0]])
    density = np.exp(log_ndtr(a) + log_ndtr(-b) - 0.5 * np.einsum("iab,ij,jab->ab", away, inverse, away))
    density /= density.sum()
    moments = [float((density * x).sum()) for x in (a, b, a * a, a * b, b * b)]
    return of_weak_sites(prior), likelihood, moments


def moments_of(path: np.ndarray) -> np.ndarray:
    a, b = path.T
    return np.stack([a, b, a * a, a * b, b * b])


def conditional_chain(estimator: SequentialSampling, steps: int) -> np.ndarray:
    q, likelihood, _ = skewed()
    rng, path = np.random.default_rng(4), np.empty((steps, 2))
    f = q.sample(rng, 1)[0]
    for index in range(steps):
        f = estimator.estimate_given(rng, q, likelihood, f).choose(rng)
        path[index] = f
    return path


def errors_of(path: np.ndarray) -> list[float]:
    batches = moments_of(path).reshape(5, 100, -1).mean(axis=2)
    return [standard_errors_from(batch, truth) for batch, truth in zip(batches, skewed()[2], strict=True)]


TWO_STAGES = SequentialSampling(draws=3, stages=2, threshold=1.0)


def test_conditional_estimates_leave_the_posterior_invariant():
    assert max(errors_of(conditional_chain(TWO_STAGES, 7500))) < 4.0


def test_a_path_that_is_lost_in_resampling_is_rejected(monkeypatch):
    right = sequential.ancestors
    monkeypatch.setattr(sequential, "ancestors", lambda rng, log_weights, _: right(rng, log_weights, False))
    assert max(errors_of(conditional_chain(TWO_STAGES, 7500))) > 6.0


def test_particles_approach_the_posterior():
    q, likelihood, moments = skewed()
    estimator, rng = SequentialSampling(draws=512, stages=2), np.random.default_rng(6)
    picked = np.array([estimator.estimate(rng, q, likelihood).choose(rng) for _ in range(3000)])
    for values, truth in zip(moments_of(picked), moments, strict=True):
        assert standard_errors_from(values, truth) < 4.0


def test_the_retained_particle_comes_back_as_it_was():
    q, likelihood = several_classes()
    f = q.sample(np.random.default_rng(0), 1)[0]
    found = SMALL.estimate_given(np.random.default_rng(1), q, likelihood, f)
    np.testing.assert_array_equal(found.particles[0], f)
    assert found.particles.shape == (8, 24)
    assert 1.0 <= found.effective_size <= 8.0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"draws": 0}, 'draws must be a positive integer or "auto", not 0'),
        ({"stages": 2.5}, "stages must be a whole number of at least 1, not 2.5"),
        ({"threshold": 1.5}, "fraction between 0 and 1, not 1.5"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        SequentialSampling(**settings)


def test_a_likelihood_without_terms_is_refused():
    with pytest.raises(ValueError, match="terms can be evaluated one by one"):
        SequentialSampling.require(object())


def of_graph(likelihood: str) -> pm.Model:
    """Twelve observations by PyMC's own distributions: of one process, of two, or in one product."""
    x, rng = np.linspace(0.0, 3.0, 12)[:, None], np.random.default_rng(0)
    with pm.Model() as model:
        variance = pm.Gamma("variance", 2, 1)
        f = pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(1, ls=1.0)).prior("f", X=x, reparameterize=False)
        if likelihood == "two":
            g = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0)).prior("g", X=x, reparameterize=False)
            pm.Normal("y", f, pm.math.exp(g), observed=rng.standard_normal(12))
        elif likelihood == "one":
            pm.Poisson("y", pm.math.exp(f), observed=rng.integers(4, size=12))
        else:
            pm.Potential("y", pt.dot(np.ones(12), pm.logp(pm.Bernoulli.dist(logit_p=f), rng.integers(2, size=12))))
    return model


@pytest.mark.parametrize("likelihood", ["one", "two"])
def test_terms_of_graphs_are_passed_too(likelihood):
    found, expected = (
        pmgp.marginal.log_likelihood(of_graph(likelihood), {"variance": 3.0}, estimator=estimator, random_seed=3)
        for estimator in (SequentialSampling(512, threshold=0.9), ImportanceSampling(2048))
    )
    error = np.hypot(found.standard_error, expected.standard_error)
    assert error < 0.1
    assert abs(found.value - expected.value) < 4.0 * error


def test_a_product_that_hides_the_observations_is_refused():
    """Its graph is a function of draws of f as well, and what it gives are no terms."""
    with pytest.raises(ValueError, match="terms can be evaluated one by one"):
        pmgp.PseudoMarginal(model=of_graph("product"), approximation="laplace", estimator="sequential")
