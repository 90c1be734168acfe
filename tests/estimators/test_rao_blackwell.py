"""One process is integrated out given the others: estimates are unbiased, vary little, and its draws are exact."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from scipy.stats import halfnorm, norm, qmc

import pmgp
from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators import ImportanceSampling, RaoBlackwellSampling
from pmgp.core.estimators.integrated_vector import IntegratedVector
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.chosen import named_estimator
from tests.truths import standard_errors_from

FAST = {"mode": INTERPRETED}
X, Y = np.array([0.0, 0.7, 1.9, 2.6]), np.array([0.2, 1.1, -0.4, 0.6])
UNIT = np.exp(-0.5 * np.square(X[:, None] - X)) + 1e-6 * np.eye(4)


def model_of(observe, number=2) -> pm.Model:
    with pm.Model() as model:
        scale = pm.HalfNormal("scale")
        observe(*[pm.MvNormal(name, np.zeros(4), scale**2 * UNIT) for name in "fgh"[:number]])
    return model


def heteroscedastic(f, g):
    pm.Normal("y", f, pm.math.exp(g - 1.0), observed=Y)


def of_scale_first(f, g):
    pm.Normal("y", g, pm.math.exp(f - 1.0), observed=Y)


@cache
def problem(observe, number=2, scale=0.8):
    parts = take_apart(model_of(observe, number), compile_kwargs=FAST)
    theta = np.log([scale])
    likelihood = parts.likelihood(theta)
    return ExpectationPropagation().fit(parts.prior(theta), likelihood), likelihood


class Truth:
    """The posterior of the log-scale g by quasi-Monte Carlo, and of f given g by regression."""

    def __init__(self, scale: float, bits: int = 14) -> None:
        uniform = qmc.Sobol(4, rng=np.random.default_rng(1)).random_base2(bits)
        self.g = scale * norm.ppf(uniform) @ np.linalg.cholesky(UNIT).T
        noise = np.exp(2.0 * (self.g - 1.0))[:, :, None] * np.eye(4)
        self.covariance = scale**2 * UNIT + noise
        inverse = np.linalg.inv(self.covariance)
        logs = -0.5 * (np.einsum("i,kij,j->k", Y, inverse, Y) + np.linalg.slogdet(self.covariance)[1])
        self.log_evidence = logsumexp(logs) - np.log(len(logs)) - 2.0 * np.log(2.0 * np.pi)
        self.weights = np.exp(logs - logsumexp(logs))
        gain = scale**2 * UNIT @ inverse
        mean, variance = gain @ Y, scale**2 * (np.diag(UNIT) - np.einsum("kij,ji->ki", gain, UNIT))
        self.means = self.weights @ np.concatenate([mean, self.g], axis=1)
        self.squares = self.weights @ np.concatenate([mean**2 + variance, self.g**2], axis=1)
        self.scale, self.inverse = scale, inverse

    def draws(self, rng: np.random.Generator, number: int) -> np.ndarray:
        """Exact draws of f and g: (number, 8)."""
        chosen = rng.choice(len(self.g), number, p=self.weights)
        gain = self.scale**2 * UNIT @ self.inverse[chosen]
        covariance = self.scale**2 * UNIT - self.scale**2 * gain @ UNIT
        normals = rng.standard_normal((number, 4, 1))
        f = gain @ Y + (np.linalg.cholesky(covariance + 1e-12 * np.eye(4)) @ normals)[:, :, 0]
        return np.concatenate([f, self.g[chosen]], axis=1)


@cache
def truth(scale=0.8) -> Truth:
    return Truth(scale)


@pytest.mark.parametrize("observe", [heteroscedastic, of_scale_first])
@pytest.mark.parametrize("draws", [1, 16])
def test_estimates_are_unbiased(observe, draws):
    q, likelihood = problem(observe)
    estimator, rng = RaoBlackwellSampling(draws, vector=int(observe is of_scale_first)), np.random.default_rng(5)
    logs = np.array([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(800)])
    relative = np.exp(logs - truth().log_evidence)
    assert standard_errors_from(relative, 1.0) < 4.0
    assert relative.std() < 0.05 * np.sqrt(len(relative))


def test_weights_without_the_sites_of_the_others_are_rejected(monkeypatch):
    right = IntegratedVector.log_sites

    def without(self, f):
        others = np.delete(f.reshape(len(f), 2, 4), self.vector, axis=1)[:, 0]
        return right(self, f) - others @ np.delete(self.q.linear.reshape(2, 4), self.vector, axis=0)[0]

    monkeypatch.setattr(IntegratedVector, "log_sites", without)
    q, likelihood = problem(heteroscedastic)
    rng = np.random.default_rng(1)
    logs = np.array([RaoBlackwellSampling(8).estimate(rng, q, likelihood).log_evidence for _ in range(600)])
    assert standard_errors_from(np.exp(logs - truth().log_evidence), 1.0) > 8.0


def test_they_vary_less_than_those_of_importance_sampling():
    q, likelihood = problem(heteroscedastic)
    rng = np.random.default_rng(2)
    spread = [
        np.std([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(200)])
        for estimator in (RaoBlackwellSampling(8), ImportanceSampling(8))
    ]
    assert spread[0] < 0.25 * spread[1]


def test_three_processes_have_the_estimate_of_importance_sampling():
    q, likelihood = problem(lambda f, g, h: pm.Normal("y", g + h, pm.math.exp(f - 1.0), observed=Y), 3)
    rng = np.random.default_rng(3)
    several = [
        np.exp([estimator.estimate(rng, q, likelihood).log_evidence for _ in range(repeats)])
        for estimator, repeats in ((RaoBlackwellSampling(16, vector=2), 300), (ImportanceSampling(2048), 100))
    ]
    error = np.hypot(*[one.std() / np.sqrt(len(one)) for one in several])
    assert abs(several[0].mean() - several[1].mean()) < 4.0 * error < 0.1 * several[0].mean()


def kept_after(estimator, scale=0.8, number=1200):
    """Draws of f and g after the estimate has been renewed given exact ones."""
    q, likelihood = problem(heteroscedastic, scale=scale)
    rng = np.random.default_rng(4)
    start = truth(scale).draws(rng, number)
    return np.array([estimator.estimate_given(rng, q, likelihood, one).choose(rng) for one in start])


def farthest(drawn, scale=0.8):
    """Standard errors between the means of the draws, and of their squares, and those of the posterior."""
    pairs = (drawn, truth(scale).means), (drawn**2, truth(scale).squares)
    return max(standard_errors_from(one, value) for x, known in pairs for one, value in zip(x.T, known, strict=True))


@pytest.mark.parametrize(
    ("estimator", "scale"), [(RaoBlackwellSampling(16, slices=0), 2.5), (RaoBlackwellSampling(1, slices=1), 0.8)]
)
def test_renewed_estimates_keep_the_posterior(estimator, scale):
    assert farthest(kept_after(estimator, scale), scale) < 4.0


def test_particles_that_are_always_taken_for_draws_of_the_prior_are_rejected(monkeypatch):
    monkeypatch.setattr(IntegratedVector, "is_of_prior", lambda *_: True)
    assert farthest(kept_after(RaoBlackwellSampling(16, slices=0), 2.5), 2.5) > 8.0


def test_draws_of_the_integrated_process_without_its_variance_are_rejected(monkeypatch):
    def without(self, rng, particle):
        return np.mean([right(self, rng, particle) for _ in range(8)], axis=0)

    right = IntegratedVector.draw
    monkeypatch.setattr(IntegratedVector, "draw", without)
    assert farthest(kept_after(RaoBlackwellSampling(1, slices=0), number=800)) > 8.0


def test_slices_of_the_likelihood_alone_are_rejected(monkeypatch):
    monkeypatch.setattr(IntegratedVector, "log_weights", lambda self, f, share=0.0: self.log_likelihood(f))
    assert farthest(kept_after(RaoBlackwellSampling(1, slices=2), number=2000)) > 8.0


def test_the_chain_has_the_posterior_and_its_evidence_is_that_of_the_integral():
    grid = np.linspace(-7.0, 1.6, 44)
    logs = np.array([Truth(scale, 11).log_evidence for scale in np.exp(grid)]) + halfnorm.logpdf(np.exp(grid)) + grid
    weights = np.exp(logs - logs.max())
    mean = np.average(np.exp(grid), weights=weights)
    deviation = np.sqrt(np.average(np.square(np.exp(grid) - mean), weights=weights))
    model = model_of(heteroscedastic)
    idata = pmgp.sample(model, draws=300, tune=150, chains=2, cores=1, random_seed=5, progressbar=False, quiet=True)
    scale = idata["posterior"]["scale"].to_numpy()
    assert abs(scale.mean() - mean) < 0.2 * deviation
    assert scale.std() == pytest.approx(deviation, rel=0.2)
    found = pmgp.evidence(idata, model=model, draws=200, random_seed=6, progressbar=False)
    assert abs(found.log_evidence - logsumexp(logs) - np.log(grid[1] - grid[0])) < 4.0 * found.standard_error < 0.2


@pytest.mark.parametrize(
    ("observe", "vector"),
    [
        (heteroscedastic, 0),
        (of_scale_first, 1),
        (lambda f, g: pm.StudentT("y", nu=4, mu=f, sigma=pm.math.exp(g), observed=Y), None),
        (lambda f, g: pm.Potential("y", 0.1 * f + pm.logp(pm.Poisson.dist(pm.math.exp(g)), [0, 1, 2, 1])), None),
        (lambda f, g: pm.Poisson("y", pm.math.exp(f + g), observed=[0, 1, 2, 1]), None),
        (lambda f, g: pm.Normal("y", pm.math.exp(f), pm.math.exp(g), observed=Y), None),
        (lambda f, g: pm.SkewNormal("y", mu=f, sigma=pm.math.exp(g), alpha=pm.Normal("alpha"), observed=Y), None),
        (lambda f, g: pm.Normal("y", f[:3] * 2.0, pm.math.exp(g[:3]), observed=Y[:3]), 0),
    ],
)
def test_the_process_is_found(observe, vector):
    parts = take_apart(model_of(observe), compile_kwargs=FAST)
    chosen = named_estimator("auto", parts)
    assert getattr(chosen, "vector", None) == vector


@pytest.mark.parametrize("noise", [1.0, 1e-11])
@pytest.mark.parametrize("far", [0.0, 1e3])
def test_terms_have_their_maxima_from_far_away_too(noise, far):
    q, likelihood = problem(heteroscedastic)
    f = np.concatenate([Y + far, np.full(4, 1.0 + np.log(noise))])[None, :]
    terms = IntegratedVector(q, likelihood, 0).quadratic(f)
    np.testing.assert_allclose(terms.peak[0], norm.logpdf(0.0, scale=noise), rtol=1e-8)
    np.testing.assert_allclose(terms.precision[0], noise**-2, rtol=1e-8)
    np.testing.assert_allclose(terms.location[0], Y, atol=1e-3 * noise)


def test_noise_that_nearly_vanishes_gives_no_evidence_by_rounding():
    """It was 2e141 where terms were far narrower than the sites of q."""
    q, likelihood = problem(heteroscedastic, scale=20.0)
    rng = np.random.default_rng(6)
    logs = [RaoBlackwellSampling().estimate(rng, q, likelihood).log_evidence for _ in range(20)]
    assert logsumexp(logs) - np.log(20.0) < Truth(20.0).log_evidence + 1.0


def test_another_process_is_refused():
    with pytest.raises(ValueError, match=r"integrates out process number 1 of 'f, g', which must be normal given"):
        pmgp.PseudoMarginal(model=model_of(heteroscedastic), estimator=RaoBlackwellSampling(vector=1))
    with pytest.raises(ValueError, match="slices"):
        RaoBlackwellSampling(slices=-1)
