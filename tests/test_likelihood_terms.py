"""Which latent value each term of a likelihood belongs to, however the terms are arranged."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.special import gammaln

import pmgp
from pmgp.core.approximations import ExpectationPropagation
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError
from pmgp.interface.model.likelihood_terms import LikelihoodTerms, binary_masks
from pmgp.interface.model.taking_apart import take_apart
from tests.steps.test_contract import FAST

N = 9
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, 2))
TIMES = RNG.gamma(2.0, 1.0, size=N)
REALS = RNG.normal(size=N)
CENSORED = np.arange(N) % 3 == 0
THETA = np.empty(0)


def located(evaluate, n: int) -> LikelihoodTerms:
    rng = np.random.default_rng(0)
    terms = LikelihoodTerms(["y"], lambda rows, theta: [evaluate(rows)])
    terms.locate([(THETA, rng.normal(size=n), rng.uniform(0.5, 1.5, n)) for _ in range(2)])
    return terms


@pytest.mark.parametrize("n", [1, 2, 3, 8, 100])
def test_masks_tell_all_indices_apart(n):
    ones, zeros = np.split(binary_masks(n), 2)
    assert np.array_equal(ones + zeros, np.ones_like(ones))
    assert len(np.unique(ones, axis=1).T) == n


@pytest.mark.parametrize("n", [1, 2, 3, 8, 100])
def test_each_term_is_added_to_its_latent_value(n, rng):
    index = rng.integers(0, n, size=2 * n)
    terms, f = located(lambda rows: np.exp(rows[:, index]), n), rng.normal(size=(3, n))
    expected = np.zeros((3, n))
    np.add.at(expected, (slice(None), index), np.exp(f[:, index]))
    assert terms.separate
    assert_allclose(terms.sites(f, THETA), expected, rtol=1e-13)


def test_one_impossible_value_that_makes_all_terms_impossible_couples_none():
    """PyMC checks the parameters of a distribution together."""

    def evaluate(rows, theta):
        return [np.where((rows < 2.0).all(axis=1, keepdims=True), -np.square(rows + 1.0), -np.inf)]

    terms = LikelihoodTerms(["y"], evaluate)
    terms.locate([(THETA, np.zeros(8), np.full(8, move)) for move in (3.0, 0.5)])
    assert terms.separate
    assert list(terms.index) == list(range(8))


def test_terms_in_their_order_are_passed_on_as_they_are(rng):
    values = rng.normal(size=(3, N))
    terms = located(lambda rows: np.square(rows), N)
    assert terms._places is None
    assert_allclose(terms.sites(values, THETA), np.square(values))


@pytest.mark.parametrize("n", [2, 5, 64])
def test_a_weak_dependence_on_a_second_latent_value_is_seen(n):
    assert not located(lambda rows: rows + 1e-4 * np.roll(rows, 1, axis=1), n).separate
    assert located(lambda rows: rows + 0.0 * np.roll(rows, 1, axis=1), n).separate


@pytest.mark.parametrize("n", [1, 2, 5, 64])
def test_a_sum_of_all_terms_is_told_from_a_coupling(n):
    def summed(function):
        return located(lambda rows: function(rows).sum(axis=1, keepdims=True), n)

    assert summed(np.cosh).additive
    assert summed(lambda rows: 1e6 - np.abs(rows)).additive
    # The term of a single value cannot couple it with another.
    assert summed(lambda rows: rows + 1e-4 * rows * np.roll(rows, 1, axis=1)).additive == (n == 1)
    assert summed(lambda rows: np.abs(rows - np.roll(rows, 1, axis=1))).additive == (n == 1)
    assert summed(lambda rows: np.where(rows < 9.0, -np.inf, 0.0)).additive is None


def test_terms_that_no_latent_value_moves_keep_their_place_and_their_value(rng):
    f = rng.normal(size=(2, N))
    observed = np.arange(N) < 4
    terms = located(lambda rows: np.where(observed, rows**2, -3.0), N)
    assert_allclose(terms.sites(f, THETA), np.where(observed, f**2, -3.0))


def test_impossible_terms_are_known_and_do_not_look_dependent():
    wrong = np.arange(N) == 2
    terms = located(lambda rows: np.where(wrong, -np.inf, rows), N)
    assert terms.separate
    assert not terms.possible
    terms = located(lambda rows: np.where(wrong, np.nan, rows), N)
    assert terms.separate
    assert not terms.possible


def process(observe) -> LatentGaussianModel:
    with pm.Model() as model:
        variance = pm.Gamma("variance", 2, 1)
        observe(pm.gp.Latent(cov_func=variance * pm.gp.cov.ExpQuad(2, ls=1.0)).prior("f", X=X, reparameterize=False))
    return take_apart(model, compile_kwargs=FAST)


def log_survival(f, times, shape):
    return -((times / pt.exp(f)) ** shape)


def weibull_in_parts(f):
    shape = pm.Gamma("shape", 4, 2)
    pm.Weibull("y", alpha=shape, beta=pt.exp(f[~CENSORED]), observed=TIMES[~CENSORED])
    pm.Potential("survived", log_survival(f[CENSORED], TIMES[CENSORED], shape))


def weibull_by_switch(f):
    shape = pm.Gamma("shape", 4, 2)
    density = pm.logp(pm.Weibull.dist(alpha=shape, beta=pt.exp(f)), TIMES)
    pm.Potential("y", pt.switch(CENSORED, log_survival(f, TIMES, shape), density))


REPEATED = np.repeat(np.arange(N), 2)
PAIRS = RNG.normal(size=2 * N)
TWINS = {
    "terms of different lengths": (weibull_in_parts, weibull_by_switch),
    "repeated measures": (
        lambda f: pm.Normal("y", f[REPEATED], 0.5, observed=PAIRS),
        lambda f: pm.Potential("y", pm.logp(pm.Normal.dist(f[:, None], 0.5), PAIRS.reshape(N, 2)).sum(axis=1)),
    ),
    "one variable for each": (
        lambda f: [pm.Bernoulli(f"y{i}", logit_p=f[i], observed=i % 2) for i in range(N)],
        lambda f: pm.Bernoulli("y", logit_p=f, observed=np.arange(N) % 2),
    ),
    "reversed": (
        lambda f: pm.StudentT("y", 4, mu=f[::-1], sigma=0.5, observed=REALS[::-1]),
        lambda f: pm.StudentT("y", 4, mu=f, sigma=0.5, observed=REALS),
    ),
    "replicates": (
        lambda f: pm.Normal("y", f, 0.5, observed=PAIRS.reshape(N, 2).T),
        lambda f: pm.Normal("y", f[REPEATED], 0.5, observed=PAIRS),
    ),
    "replicates of a closed form": (
        lambda f: pmgp.BernoulliProbit("y", f, observed=np.arange(2 * N).reshape(2, N) % 2),
        lambda f: [pmgp.BernoulliProbit(f"y{k}", f, observed=(np.arange(N) + k * N) % 2) for k in range(2)],
    ),
    "some not observed": (
        lambda f: pm.Poisson("y", pt.exp(f[:4]), observed=[0, 1, 4, 2]),
        lambda f: pm.Potential(
            "y", pt.switch(np.arange(N) < 4, pm.logp(pm.Poisson.dist(pt.exp(f)), np.array([0, 1, 4, 2] + [0] * 5)), 0.0)
        ),
    ),
}


@pytest.mark.parametrize("name", TWINS)
def test_arranged_otherwise_the_likelihood_its_moments_and_its_approximation_are_the_same(name, rng):
    one, other = map(process, TWINS[name])
    assert one.sites_known
    assert other.sites_known
    theta = 0.3 * rng.normal(size=one.dimension)
    first, second = one.likelihood(theta), other.likelihood(theta)
    f, mean, variance = rng.normal(size=(4, N)), rng.normal(size=N), rng.uniform(0.2, 1.0, N)
    assert_allclose(first.log_likelihood(f), second.log_likelihood(f), rtol=1e-12)
    for moment, expected in zip(
        first.tilted_moments(mean, variance), second.tilted_moments(mean, variance), strict=True
    ):
        assert_allclose(moment, expected, rtol=1e-10, atol=1e-12)
    fits = [ExpectationPropagation().fit(model.prior(theta), model.likelihood(theta)) for model in (one, other)]
    assert fits[0].converged
    assert fits[0].log_evidence == pytest.approx(fits[1].log_evidence, abs=1e-9)
    assert_allclose(fits[0].mean, fits[1].mean, atol=1e-8)


def test_moments_of_terms_in_parts_are_those_of_quadrature(rng):
    model = process(weibull_in_parts)
    theta, mean, variance = np.array([0.1, 0.4]), rng.normal(size=N), rng.uniform(0.2, 1.0, N)
    grid = np.linspace(-9.0, 9.0, 8_001)
    shape, scaled = np.exp(0.4), TIMES[:, None] / np.exp(grid)
    log_density = np.log(shape) - grid + (shape - 1.0) * np.log(scaled) - scaled**shape
    logs = np.where(CENSORED[:, None], -(scaled**shape), log_density)
    weights = np.exp(logs - 0.5 * (grid - mean[:, None]) ** 2 / variance[:, None])
    expected = (weights * grid).sum(axis=1) / weights.sum(axis=1)
    spread = (weights * np.square(grid - expected[:, None])).sum(axis=1) / weights.sum(axis=1)
    found = model.likelihood(theta).tilted_moments(mean, variance, near=(expected, spread))
    assert_allclose(found.mean, expected, atol=1e-6)
    assert_allclose(found.variance, spread, atol=1e-6)


NEIGHBORS = np.tril(np.ones((N, N)), -1) / N


def coupled(f, value: float):
    rho = pm.Normal("rho", 0.0, 1.0, initval=value)
    pm.Poisson("y", pt.exp(f + rho * pt.dot(NEIGHBORS, f)), observed=np.arange(N))


def hidden_coupling(f):
    """One term for all f."""
    rho = pm.Normal("rho", 0.0, 1.0, initval=0.0)
    pm.Potential("y", -pt.square(f + rho * pt.roll(f, 1)).sum())


def hidden_kinks(f):
    """Almost all second derivatives are zero."""
    rho = pm.Normal("rho", 0.0, 1.0, initval=0.5)
    pm.Potential("y", -abs(f + rho * pt.roll(f, 1)).sum())


@pytest.mark.parametrize(
    "observe", [lambda f: coupled(f, 0.0), lambda f: coupled(f, 0.5), hidden_coupling, hidden_kinks]
)
def test_a_coupling_that_vanishes_at_the_initial_point_is_found(observe):
    with pytest.raises(ModelError, match="does not factorize over 'f'"):
        process(observe)


def test_indices_that_are_data_are_read_again(rng):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1)
        index = pm.Data("index", np.arange(3))
        f = pm.MvNormal("f", np.zeros(3), cov=scale * np.eye(3))
        pm.Normal("y", f[index], 1.0, observed=[1.0, 2.0, 3.0])
    parts = take_apart(model, compile_kwargs=FAST)
    f, theta = rng.normal(size=(1, 3)), np.zeros(1)
    before = parts.terms.sites(f, theta)
    with model:
        pm.set_data({"index": [2, 0, 1]})
    parts.refresh_data()
    expected = -0.5 * np.square(f - np.array([2.0, 3.0, 1.0])) - 0.5 * np.log(2.0 * np.pi)
    assert_allclose(parts.terms.sites(f, theta), expected)
    assert not np.allclose(before, expected)


@pytest.mark.parametrize("name", ["truncated", "hurdle"])
def test_counts_without_zero_have_values_and_derivatives_for_any_rate(name):
    y = np.array([1, 700, 20_000])
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("lengthscale")))
        f = gp.prior("f", X=np.arange(3.0)[:, None], reparameterize=False)
        if name == "truncated":
            pm.Truncated("y", pm.Poisson.dist(pm.math.exp(f)), lower=1, observed=y)
        else:
            pm.HurdlePoisson("y", psi=0.5, mu=pm.math.exp(f), observed=y)
    parts = take_apart(model)
    parts.compile_derivatives(second=True)
    likelihood = parts.likelihood(parts.initial_theta)
    for value in (-45.0, -3.0, 0.0, 5.0, 6.7, 9.0, 15.0):
        rate, at = np.exp(value), np.full(3, value)
        # log(1 - exp(-rate)), with derivatives in log(rate).
        rest = np.log(-np.expm1(-rate))
        slope = rate / np.expm1(min(rate, 700.0))
        bend = slope * (1.0 - rate - slope)
        expected = y * value - rate - gammaln(y + 1.0) - rest + (np.log(0.5) if name == "hurdle" else 0.0)
        assert_allclose(np.ravel(likelihood.log_density(at[None])), expected, rtol=1e-7)
        gradient, curvature = likelihood.derivatives(at)
        assert_allclose(gradient, y - rate - slope, rtol=1e-7, atol=1e-7)
        assert_allclose(curvature, rate + bend, rtol=1e-6, atol=1e-7)


def test_classes_of_a_matrix_with_dimensions_print_no_traceback(caplog):
    """PyTensor logs rewrites that fail, which a shape of unknown lengths would make of its own."""
    with pm.Model(coords={"class": ["a", "b", "c"], "observation": range(6)}) as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.HalfNormal("lengthscale")))
        X, dims = np.arange(6.0)[:, None], ("class", "observation")
        f = gp.prior("f", X=X, n_outputs=3, reparameterize=False, dims=dims)
        p = pm.math.softmax(f.T, axis=-1)
        pm.Categorical("y", p=p, observed=np.arange(6) % 3, dims="observation")
    parts = take_apart(model)
    parts.compile_derivatives(second=True)
    parts.likelihood(parts.initial_theta).derivatives(np.zeros(18))
    assert not [record for record in caplog.records if record.name.startswith("pytensor")]
