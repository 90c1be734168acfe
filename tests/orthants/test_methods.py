"""E[p^] = L for a handful of draws; the pieces of the methods: recursions, saddle point, compiled loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, ndtr

from pmgp.core.approximations import ExpectationPropagation
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.numerics.ledger import counted
from pmgp.core.orthants.compiled_normal import truncated
from pmgp.core.orthants.ordering import ordered
from pmgp.core.orthants.probability import recursion
from pmgp.core.orthants.problem import TruncatedNormal
from pmgp.core.orthants.recursion import Recursion, twisted
from pmgp.core.orthants.resampling import hard_count, sequential_monte_carlo, soft_count
from pmgp.core.orthants.sites import Limits, matched_limits
from pmgp.core.orthants.tilting import saddle_point
from tests.orthants import truths
from tests.truths import standard_errors_from

COUNTS = {"hard": hard_count, "smc": sequential_monte_carlo, "soft": soft_count}
SEQUENTIAL = ("ep", "ghk", "tilted")
KNOWN = truths.equicorrelated(3)


def problem(known: truths.Known = KNOWN) -> TruncatedNormal:
    return TruncatedNormal.checked(known.lower, known.upper, 0.0, known.covariance)


def population_ratios(method: str, particles: int, repetitions: int = 8_000) -> np.ndarray:
    """p^ / L of single populations."""
    given = problem()
    taken = ordered(given.correlation, *given.limits)
    rng = np.random.default_rng(7)
    logs = np.array([COUNTS[method](rng, taken, particles).log_estimate for _ in range(repetitions)])
    return np.exp(logs - KNOWN.log_probability)


@pytest.mark.parametrize("particles", [2, 3, 4])
@pytest.mark.parametrize("method", ["hard", "smc"])
def test_few_particles_are_unbiased(method, particles):
    ratios = population_ratios(method, particles)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.02


@pytest.mark.parametrize("particles", [2, 3, 4])
def test_the_count_as_printed_is_rejected(particles):
    """The broken twin, by the very test above."""
    assert standard_errors_from(population_ratios("soft", particles), 1.0) > 10.0


def path_ratios(drawn: Recursion, log_probability: float, draws: int, repetitions: int) -> np.ndarray:
    """p^ / L of antithetic groups of few draws."""
    n, half = drawn.problem.size, draws // 2
    uniforms = np.random.default_rng(3).uniform(size=(n, repetitions * half))
    logs = np.stack([drawn.draw(u).log_weights for u in (uniforms, 1.0 - uniforms)], axis=1)
    return np.exp(log_mean_exp(logs.reshape(repetitions, draws)) - log_probability)


PATHS = {
    "three": truths.equicorrelated(3),
    "arcsines": truths.two_or_three(-0.3, -0.5, 0.2),
    "factor": truths.one_factor(12, 3),
    "line": truths.line(40, 2.0),
}


@pytest.mark.parametrize("draws", [2, 4])
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("method", SEQUENTIAL)
def test_few_paths_are_unbiased(method, name, draws):
    known = PATHS[name]
    ratios = path_ratios(recursion(problem(known), method), known.log_probability, draws, 20_000)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.02


@pytest.mark.parametrize("name", ["three", "line"])
def test_any_sites_are_exact(name):
    """Such as those of sweeps that did not converge."""
    known = PATHS[name]
    given = problem(known)
    rng = np.random.default_rng(2)
    linear, precision = 0.2 * rng.normal(size=given.size), rng.uniform(0.0, 0.3, given.size)
    drawn = twisted(ordered(given.correlation, *given.limits), linear, precision)
    ratios = path_ratios(drawn, known.log_probability, 2, 40_000)
    assert standard_errors_from(ratios, 1.0) < 4.0
    assert ratios.std() / np.sqrt(len(ratios)) < 0.05


@pytest.mark.parametrize("column", [8, 9])
def test_a_weight_that_forgets_a_sites_share_is_rejected(column):
    known = PATHS["line"]
    drawn = recursion(problem(known), "ep")
    drawn.coefficients[:, column] *= 0.9
    assert standard_errors_from(path_ratios(drawn, known.log_probability, 2, 20_000), 1.0) > 10.0


@pytest.mark.parametrize("method", SEQUENTIAL)
def test_a_path_is_replayed(method):
    """Its weight, and the uniform numbers that it was made of."""
    drawn = recursion(problem(truths.line(70, 5.0)), method)
    uniforms = np.random.default_rng(1).uniform(size=(70, 5))
    paths = drawn.draw(uniforms)
    again = drawn.replayed(paths.values)
    assert_allclose(again.log_weights, paths.log_weights, rtol=1e-9)
    assert_allclose(again.uniforms, uniforms, atol=1e-9)
    assert_allclose(paths.uniforms, uniforms)


def test_blocks_and_chunks_do_not_matter():
    """Draws one at a time are those made together: more of them than a chunk, more variables than a block."""
    drawn = recursion(problem(truths.line(90, 5.0)), "ep")
    uniforms = np.random.default_rng(1).uniform(size=(90, 150))
    together = drawn.draw(uniforms)
    for k in (0, 77, 149):
        alone = drawn.draw(uniforms[:, k : k + 1])
        assert_allclose(alone.values[:, 0], together.values[:, k], atol=1e-9)
        assert_allclose(alone.log_weights[0], together.log_weights[k], atol=1e-9)


def test_sites_stand_in_for_limits():
    """Log-weights vary less than half as much as tilted ones, and these than plain ones."""
    known = truths.line(100, 4.0)
    uniforms = np.random.default_rng(1).uniform(size=(100, 500))
    spread = {method: recursion(problem(known), method).draw(uniforms).log_weights.std() for method in SEQUENTIAL}
    assert spread["ep"] < 0.5 * spread["tilted"] < 0.25 * spread["ghk"]


def test_weakened_sites_even_the_weights_out(monkeypatch):
    """Compare with matched sites for antithetic pairs, a large variance and mostly uninformative limits."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 2))
    covariance = 50.0 * np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=-1))
    f = np.linalg.cholesky(covariance + 1e-6 * np.eye(150)) @ rng.normal(size=150)
    signs = np.sign(f + rng.normal(size=150))
    given = TruncatedNormal.checked(0.0, np.inf, 0.0, covariance * np.outer(signs, signs) + np.eye(150))

    def spread():
        ratios = path_ratios(recursion(given, "ep"), 0.0, 2, 4000)
        return ratios.std() / ratios.mean()

    weakened = spread()
    monkeypatch.setattr("pmgp.core.orthants.sites.WEAKENING", 0.0)
    assert weakened < 0.7 * spread()


def test_the_order_is_a_rule_and_the_factor_is_its_own():
    rng = np.random.default_rng(1)
    factor = rng.normal(size=(120, 120))
    covariance = factor @ factor.T
    scale = np.sqrt(covariance.diagonal())
    correlation = covariance / np.outer(scale, scale)
    lower = rng.normal(size=120)
    upper = np.where(rng.uniform(size=120) < 0.5, lower + 1.0, np.inf)
    taken = ordered(correlation, lower, upper)
    assert sorted(taken.order) == list(range(120))
    assert_allclose(taken.factor @ taken.factor.T, correlation[np.ix_(taken.order, taken.order)], atol=1e-12)
    assert_allclose(taken.lower, lower[taken.order])
    chances = NormalInterval(lower, upper, upper - lower).log_probability()
    assert taken.order[0] == np.argmin(chances)
    given = ordered(correlation, lower, upper, np.arange(120))
    assert_allclose(given.factor, np.linalg.cholesky(correlation), atol=1e-12)


def some_limits(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A lower limit, an upper one, both, or none."""
    lower, kind = rng.normal(size=n), rng.integers(4, size=n)
    upper = lower + rng.uniform(0.1, 2.0, size=n)
    return np.where(np.isin(kind, [0, 2]), lower, -np.inf), np.where(np.isin(kind, [1, 2]), upper, np.inf)


def test_whatever_its_limits_the_least_likely_variable_is_next():
    """Those with one limit are compared by that, the others by their probabilities."""
    rng = np.random.default_rng(5)
    factor = rng.normal(size=(60, 60))
    correlation = np.corrcoef(factor @ np.diag(np.linspace(0.1, 1.0, 60)))
    lower, upper = some_limits(rng, 60)
    taken = ordered(correlation, lower, upper)
    for place in (0, 1, 7, 30, 58):
        rest = taken.order[place:]
        pivots = taken.factor[:place, :place].diagonal()
        expected = np.zeros(place)
        for i in range(place):
            before = taken.factor[i, :i] @ expected[:i]
            limits = (taken.lower[i] - before) / pivots[i], (taken.upper[i] - before) / pivots[i]
            expected[i] = scipy.stats.truncnorm.mean(*limits)
        mean = taken.factor[place:, :place] @ expected
        left = 1.0 - np.square(taken.factor[place:, :place]).sum(axis=1)
        chances = ndtr((upper[rest] - mean) / np.sqrt(left)) - ndtr((lower[rest] - mean) / np.sqrt(left))
        assert np.argmin(chances) == 0, place


@pytest.mark.parametrize("distance", [0.0, 3.0, 40.0])
def test_half_lines_are_intervals_without_an_end(distance):
    """In both tails, and on both sides."""
    x = np.linspace(-1.0, 1.0, 21)
    lower = np.concatenate([distance + x, np.full(21, -np.inf)])
    upper = np.concatenate([np.full(21, np.inf), distance + x])
    limits = Limits(lower, upper)
    mean, scale = np.linspace(-0.5, 0.7, 42), np.linspace(0.5, 2.0, 42)
    assert_allclose(limits._of_half_lines(mean, scale), limits._of_intervals(mean, scale), rtol=1e-8, atol=1e-14)


@pytest.mark.parametrize("variance", [1.0, 50.0, 1000.0])
def test_sites_are_matched_with_the_factorizations_of_a_fit_for_labels(variance):
    """No more of them than expectation propagation for f, whose sites these are too."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 2))
    covariance = variance * np.exp(-0.125 * np.square(X[:, None] - X).sum(axis=-1))
    y = (X[:, 0] + 0.3 * rng.normal(size=100) > 0.0).astype(int)
    signs = 2.0 * y - 1.0
    given = TruncatedNormal.checked(0.0, np.inf, 0.0, covariance * np.outer(signs, signs) + np.eye(100))
    with counted() as of_limits:
        matched_limits(given)
    with counted() as of_labels:
        ExpectationPropagation().fit(DensePrior(np.zeros(100), np.asfortranarray(covariance)), BernoulliProbit(y))
    assert 0 < of_limits.total.cholesky <= of_labels.total.cholesky


@pytest.mark.parametrize("given", [None, "shuffled"])
def test_the_factor_of_a_nearly_singular_matrix_reproduces_it(given):
    """In any order, though pivots are rounding errors in most."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2))
    correlation = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=-1))
    order = None if given is None else rng.permutation(200)
    taken = ordered(correlation, np.zeros(200), np.full(200, np.inf), order)
    assert np.isfinite(taken.factor).all()
    assert_allclose(taken.factor @ taken.factor.T, correlation[np.ix_(taken.order, taken.order)], atol=1e-7)


def test_the_saddle_point_bounds_the_weights():
    """Botev (2017): the probability is at most exp(psi) there, and so is every weight; both gradients vanish."""
    known = truths.line(30, 3.0)
    given = problem(known)
    taken = ordered(given.correlation, *given.limits)
    shift = saddle_point(taken)
    d = taken.factor.diagonal()
    x = shift.copy()
    for i in range(30):
        limit = (taken.lower[i] - taken.factor[i, :i] @ x[:i]) / d[i] - shift[i]
        x[i] += np.exp(-0.5 * limit**2 - 0.5 * np.log(2.0 * np.pi) - log_ndtr(-limit))
    limits = (taken.lower - np.tril(taken.factor, -1) @ x) / d - shift
    bound = float(np.sum(0.5 * shift**2 - x * shift + log_ndtr(-limits)))
    paths = recursion(given, "tilted").draw(np.random.default_rng(1).uniform(size=(30, 4000)))
    assert paths.log_weights.max() <= bound + 1e-6
    assert paths.log_weights.max() > bound - 1.0
    assert known.log_probability < bound


LIMITS = np.array(
    [
        *[(a, np.inf) for a in (-40.0, -8.0, -1.0, 0.0, 2.0, 12.0, 29.9, 30.1, 45.0, 1e4)],
        *[(a, a + w) for a in (-35.0, -3.0, -0.1, 0.0, 4.0, 28.0, 31.0, 60.0) for w in (1e-8, 1e-4, 0.02, 0.5, 4.0)],
    ]
)


def test_probabilities_far_into_both_tails():
    lower, upper = (np.ascontiguousarray(side) for side in LIMITS.T)
    draws, logs = np.empty((2, len(lower)))
    truncated(lower, upper, np.full(len(lower), 0.5), draws, logs)
    assert_allclose(logs, NormalInterval(lower, upper, upper - lower).log_probability(), rtol=1e-9, atol=1e-12)
    reflected = np.empty(len(lower))
    truncated(-upper, -lower, np.full(len(lower), 0.5), draws, reflected)
    assert_allclose(reflected, logs, rtol=1e-12)


@pytest.mark.parametrize("uniform", [0.0, 1e-6, 0.01, 0.5, 0.99, 1.0])
def test_draws_have_their_share_of_the_probability_below(uniform):
    lower, upper = (np.ascontiguousarray(side) for side in LIMITS.T)
    draws, logs = np.empty((2, len(lower)))
    truncated(lower, upper, np.full(len(lower), uniform), draws, logs)
    assert (draws >= lower).all()
    assert (draws <= upper).all()
    inside = (draws > lower) & (draws < upper)
    below = NormalInterval(lower[inside], draws[inside], (draws - lower)[inside]).log_probability()
    # Limits of a narrow interval are known to their rounding only.
    assert_allclose(np.exp(below - logs[inside]), uniform, atol=2e-6)
    assert uniform in (0.0, 1.0) or inside.mean() > 0.6


def test_inversion_gives_the_normal_distribution():
    uniforms = np.linspace(0.0005, 0.9995, 1000)
    draws, logs = np.empty((2, 1000))
    truncated(np.full(1000, -np.inf), np.full(1000, np.inf), uniforms, draws, logs)
    assert_allclose(ndtr(draws), uniforms, rtol=1e-12)
    assert_allclose(logs, 0.0, atol=1e-15)
