"""Leave-one-out densities of several processes, all of which are integrated out: unbiased, and in ArviZ's form."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from scipy.stats import norm, qmc

import pmgp
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling, RaoBlackwellSampling
from pmgp.core.estimators.importance import CompletedParticles, WeightedParticles
from pmgp.core.gaussians import BlockPrior, DensePrior
from pmgp.core.importance import (
    Terms,
    block_evidence_left_out,
    block_left_out,
    integrated_evidence_left_out,
    integrated_left_out,
)
from pmgp.core.likelihoods import MultinomialLogit
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST
from tests.test_loo import QUIET, SETTINGS, distance

PLACES = np.array([0.0, 0.1, 0.3, 0.4])
WHERE = np.array([0, 2, 1, 3, 2])
REALS = np.array([0.3, -2.0, 0.1, 0.8, 1.2])
COUNTS = np.array([9, 1, 4, 12, 7])


def covariance(places: np.ndarray) -> np.ndarray:
    return np.exp(-np.abs(places[:, None] - places))


def normals(size: int) -> np.ndarray:
    return norm.ppf(qmc.Sobol(size, rng=np.random.default_rng(1)).random(2**15))


def model_of(family: str, exposure=1) -> pm.Model:
    """Two processes, and two observations at one of the places."""
    coords = {"row": list("abcde")}
    with pm.Model(coords=coords) as model:
        scale = pm.LogNormal("scale", 0.0, 0.1)
        f = pm.MvNormal("f", np.zeros(4), cov=scale * covariance(PLACES))[WHERE]
        g = pm.MvNormal("g", np.full(4, -0.5), cov=0.5 * covariance(PLACES))[WHERE]
        if family == "normal":
            pm.Normal("y", f, pm.math.exp(g), observed=REALS, dims="row")
        else:
            size = np.asarray(exposure)
            shapes = {"mu": size * pm.math.exp(f), "alpha": size * pm.math.exp(g)}
            pm.NegativeBinomial("y", **shapes, observed=COUNTS * size, dims="row")
    return model


def normal_without_each() -> np.ndarray:
    """Log p(y_-j) for each j, and log p(y): f in closed form, g by a mean."""
    g = -0.5 + normals(4) @ np.linalg.cholesky(0.5 * covariance(PLACES)).T
    K, found = covariance(PLACES)[np.ix_(WHERE, WHERE)], []
    for keep in [*(np.delete(np.arange(5), j) for j in range(5)), np.arange(5)]:
        total = K[np.ix_(keep, keep)] + np.exp(2.0 * g[:, WHERE[keep]])[:, :, None] * np.eye(len(keep))
        squares = np.einsum("i,gij,j->g", REALS[keep], np.linalg.inv(total), REALS[keep])
        logs = -0.5 * (squares + np.linalg.slogdet(2.0 * np.pi * total)[1])
        found.append(logsumexp(logs) - np.log(len(logs)))
    return np.array(found)


def sums_without_each(densities: np.ndarray) -> np.ndarray:
    """Log p(y_-j) from terms at draws from the prior: (draws, J) to (J,)."""
    return logsumexp(densities.sum(axis=1, keepdims=True) - densities, axis=0) - np.log(len(densities))


@cache
def at_scale_one(family: str, exposure=1):
    parts, theta = take_apart(model_of(family, exposure), compile_kwargs=FAST), np.zeros(1)
    likelihood = parts.likelihood(theta)
    q = ExpectationPropagation().fit(parts.prior(theta).factorized(), likelihood)
    return q, likelihood, Terms(lambda f: parts.terms.flat(np.ascontiguousarray(f), theta), parts.terms.index)


def counts(exposure=1):
    """A mean and a dispersion, and two counts of one place."""
    q, likelihood, terms = at_scale_one("counts", exposure)
    f, g = np.split(normals(8), 2, axis=1)
    root = np.linalg.cholesky(covariance(PLACES)).T
    rows = np.hstack([f @ root, -0.5 + np.sqrt(0.5) * g @ root])
    return q, likelihood, terms, sums_without_each(terms.log_density(rows))


def classes():
    """Three classes, whose sites have singular precisions."""
    K, likelihood = 2.0 * covariance(PLACES[:3]), MultinomialLogit(np.array([0, 1, 0]), 3)
    prior = BlockPrior([DensePrior(np.zeros(3), np.asfortranarray(K))] * 3).factorized()
    rows = (normals(9).reshape(-1, 3, 3) @ np.linalg.cholesky(K).T).reshape(-1, 9)
    terms = Terms(likelihood.log_density, np.arange(3))
    return Laplace(sweeps=2).fit(prior, likelihood), likelihood, terms, sums_without_each(terms.log_density(rows))


@pytest.fixture(scope="module", params=[counts, classes])
def problem(request):
    return request.param()


def relative_estimates(q, likelihood, terms, truths, repeats: int = 700) -> np.ndarray:
    rng = np.random.default_rng(3)
    particles = [ImportanceSampling(4).estimate(rng, q, likelihood).particles for _ in range(repeats)]
    return np.exp(np.array([block_evidence_left_out(q, terms, one) for one in particles]) - truths)


def test_they_are_unbiased(problem):
    found = relative_estimates(*problem)

    assert distance(found) < 4.0
    assert found.std(axis=0).max() < 2.0


def test_an_observation_takes_the_share_of_its_site_that_it_has_made():
    """One of two counts of a place with twenty times the exposure: with equal shares its median is 0.62."""
    found = relative_estimates(*counts((1, 1, 1, 1, 20)), repeats=400)
    assert np.median(found, axis=0).min() > 0.75


def only_own(q, sites):
    columns = block_left_out.__dict__["_whole"](q, sites)
    own = sites[:, None] + q.prior.sites * np.arange(q.size // q.prior.sites)
    kept = np.zeros((len(sites), q.size))
    np.put_along_axis(kept, own, 1.0, axis=1)
    return columns * kept[:, None, :]


@pytest.mark.parametrize("broken", ["others stay", "density stays"])
def test_moved_particles_that_are_weighed_wrongly_fail(problem, broken, monkeypatch):
    """Broken twins: the other latent values not moved along; the determinants of the two densities left out."""
    if broken == "others stay":
        monkeypatch.setattr(block_left_out, "_whole", block_left_out._columns, raising=False)
        monkeypatch.setattr(block_left_out, "_columns", only_own)
    else:
        moves = block_left_out._moves
        monkeypatch.setattr(
            block_left_out, "_moves", lambda q, terms: moves(q, terms)._replace(log_ratios=np.zeros(len(terms.where)))
        )
    found = relative_estimates(*problem)

    assert distance(found) > 6.0


def integrated_estimates(repeats: int = 300) -> np.ndarray:
    """With as many draws as `loo` has by default."""
    q, likelihood, terms = at_scale_one("normal")
    rng, estimator = np.random.default_rng(3), RaoBlackwellSampling(draws=8)
    estimates = (estimator.estimate(rng, q, likelihood) for _ in range(repeats))
    logs = np.array([integrated_evidence_left_out(one, terms) for one in estimates])
    return np.exp(logs - normal_without_each()[:-1])


def test_they_are_unbiased_with_one_vector_integrated_out():
    found = integrated_estimates()

    assert distance(found) < 4.0
    assert found.std(axis=0).max() < 2.0


def test_a_posterior_with_the_observation_fails(monkeypatch):
    """The broken twin: f_i given all observations, in place of all but one."""
    others = integrated_left_out._given_others

    def doubled(integrated, precision, location):
        cavity, linear = others(integrated, precision, location)
        return cavity + precision, linear

    monkeypatch.setattr(integrated_left_out, "_given_others", doubled)
    assert distance(integrated_estimates()) > 8.0


def test_noise_that_nearly_vanishes_leaves_the_prediction_of_regression():
    """Precisions of 1e16, which leave no digit of the difference of two of them, and of 1e-16."""
    K, y, g = covariance(PLACES) + 1e-10, np.array([0.3, 0.2, 0.5, 0.4]), np.array([-18.4, 0.0, 18.4, -18.4])
    parts = take_apart(one_for_each(y), compile_kwargs=FAST)
    q = ExpectationPropagation().fit(parts.prior(np.zeros(1)).factorized(), parts.likelihood(np.zeros(1)))
    estimate = RaoBlackwellSampling(draws=1).estimate(np.random.default_rng(0), q, parts.likelihood(np.zeros(1)))
    terms = Terms(lambda f: parts.terms.flat(np.ascontiguousarray(f), np.zeros(1)), np.arange(4))
    found = integrated_left_out._log_predictive(estimate.given, np.append(np.zeros(4), g)[None], terms)[0]
    total = K + np.diag(np.exp(2.0 * g))
    assert_allclose(found, [of_regression(total, y, j) for j in range(4)], rtol=1e-6)


def test_other_observations_of_a_site_stay_where_one_is_left_out():
    """One of two measurements at a place may be far more precise, and hides the other one from its site's precision."""
    noise, g = np.array([1.0, 5e-4, 1.0, 1.0, 1.0]), np.array([0.0, 0.5, -0.5, 0.0])
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(4), cov=pm.LogNormal("scale", 0.0, 0.1) * covariance(PLACES))
        log_scale = pm.MvNormal("g", np.zeros(4), cov=covariance(PLACES))
        pm.Normal("y", f[WHERE], noise * pm.math.exp(log_scale[WHERE]), observed=REALS)
    parts = take_apart(model, compile_kwargs=FAST)
    likelihood = parts.likelihood(np.zeros(1))
    q = ExpectationPropagation().fit(parts.prior(np.zeros(1)).factorized(), likelihood)
    estimate = RaoBlackwellSampling(draws=1).estimate(np.random.default_rng(0), q, likelihood)
    terms = Terms(lambda rows: parts.terms.flat(np.ascontiguousarray(rows), np.zeros(1)), parts.terms.index)
    found = integrated_left_out._log_predictive(estimate.given, np.append(np.zeros(4), g)[None], terms)[0]
    total = covariance(PLACES)[np.ix_(WHERE, WHERE)] + np.diag(np.square(noise * np.exp(g[WHERE])))
    assert_allclose(found, [of_regression(total, REALS, j) for j in range(5)], rtol=1e-5)


def of_regression(total: np.ndarray, y: np.ndarray, j: int) -> float:
    """Return the log-density of one element of a normal vector given the others."""
    rest = np.delete(np.arange(len(y)), j)
    weights = np.linalg.solve(total[np.ix_(rest, rest)], total[rest, j])
    return float(norm.logpdf(y[j], weights @ y[rest], np.sqrt(total[j, j] - weights @ total[rest, j])))


def test_a_particle_without_weight_counts_as_zero():
    """Noise of 1e-26, which is below the resolution of the values, has a weight of zero and no terms."""
    parts = take_apart(one_for_each(REALS[:4]), compile_kwargs=FAST)
    likelihood = parts.likelihood(np.zeros(1))
    q = ExpectationPropagation().fit(parts.prior(np.zeros(1)).factorized(), likelihood)
    terms = Terms(lambda f: parts.terms.flat(np.ascontiguousarray(f), np.zeros(1)), np.arange(4))
    one = RaoBlackwellSampling(draws=1).estimate(np.random.default_rng(0), q, likelihood)
    f = np.concatenate([one.weighted.particles, [np.repeat([0.0, -60.0], 4)]])
    logs = one.given.log_weights(f)
    assert logs[1] == -np.inf
    both = CompletedParticles(WeightedParticles.weighed(f, logs), one.given)
    expected = integrated_evidence_left_out(one, terms) - np.log(2.0)
    assert_allclose(integrated_evidence_left_out(both, terms), expected, rtol=1e-12)


def one_for_each(y: np.ndarray) -> pm.Model:
    with pm.Model() as model:
        f = pm.MvNormal("f", np.zeros(4), cov=pm.LogNormal("scale", 0.0, 0.1) * covariance(PLACES))
        g = pm.MvNormal("g", np.zeros(4), cov=covariance(PLACES))
        pm.Normal("y", f, pm.math.exp(g), observed=y)
    return model


def test_a_model_has_the_densities_of_the_sums():
    model = model_of("normal")
    with model:
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
        idata = pm.sample(100, tune=100, chains=1, cores=1, step=step, **QUIET)
    found = pmgp.loo(idata, model=model, particles=16, **SETTINGS)
    logs = normal_without_each()

    assert_allclose(found.elpd_i, logs[-1] - logs[:-1], atol=0.08)
    assert_array_equal(found.elpd_i["row"], list("abcde"))
