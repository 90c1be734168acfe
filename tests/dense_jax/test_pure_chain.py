"""The chain as pure functions of JAX: fits as NumPy's, unbiased estimates, the posterior by quadrature, and twins."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.numerics.quadrature import normal_rule

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from pmgp.core.dense_jax import chain, estimates  # noqa: E402
from pmgp.core.dense_jax.chain import Proposal, Target  # noqa: E402
from pmgp.core.dense_jax.chains import Chains  # noqa: E402
from pmgp.core.dense_jax.fits import Fit, Terms, at_mode, propagated  # noqa: E402
from pmgp.core.dense_jax.programs import program  # noqa: E402
from pmgp.core.dense_jax.sites import conditioned, factorized  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401

N = 20
SAME = 1e-9
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(N, 2))
K = 3.0 * np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / 0.2) + 1e-6 * np.eye(N)
MEAN = np.full(N, 0.3)
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=N) > 0.5).astype(int)
SIGNS = 2.0 * LABELS - 1.0


def with_derivatives(log_density):
    """The Hessian is diagonal, so that its product with a vector of ones is its diagonal."""
    gradient = jax.grad(lambda f: log_density(f).sum())
    return Terms(log_density, lambda f: jax.jvp(gradient, (f,), (jnp.ones_like(f),)))


def test_fits_have_numpy_s_log_evidences():
    """NumPy matches a probit's moments in closed form, and not by quadrature."""
    terms = with_derivatives(lambda f: jax.scipy.special.log_ndtr(SIGNS * f))
    likelihood = BernoulliProbit(LABELS)
    prior = DensePrior(MEAN, np.asfortranarray(K))
    matched = ExpectationPropagation(tolerance=1e-12, max_sweeps=100).fit(prior, likelihood)
    at = Laplace(tolerance=1e-16, sweeps=2).fit(prior, likelihood)
    refined = Laplace(sweeps=2).refine(at, likelihood)

    @program(static_argnums=(2, 3))
    def fits(covariance, start, sweeps, steps):
        prior = factorized(MEAN, covariance)
        return propagated(prior, terms, start, 1e-12, sweeps), at_mode(prior, terms, start[0], 1e-16, steps, 2)

    start = np.stack([np.zeros(N), np.ones(N)])
    found, mode = jax.tree.map(np.array, fits(K, start, 100, 100))
    assert found.converged
    assert mode.converged
    assert abs(found.log_evidence - matched.log_evidence) < SAME
    assert abs(mode.log_evidence - at.log_evidence) < SAME
    assert np.abs(mode.q.mean - refined.mean).max() < 1e-7
    assert abs(found.q.log_normalizer - matched.log_normalizer) < 1e-6
    # Too few steps are flagged, and an indefinite K has no q.
    assert not any(fit.converged for fit in fits(K, start, 2, 2))
    assert not any(
        fit.converged & np.isfinite(fit.log_evidence) for fit in jax.tree.map(np.array, fits(-K, start, 100, 100))
    )


@pytest.mark.parametrize("unit", [1e-6, 1e7])
def test_fits_do_not_depend_on_the_units_of_f(unit):
    def evidences(unit):
        terms = with_derivatives(lambda f: jax.scipy.special.log_ndtr(SIGNS * f / unit))

        @program()
        def fits(covariance):
            prior = factorized(unit * MEAN, covariance)
            start = jnp.stack([jnp.zeros(N), jnp.full(N, -2.0 * np.log(unit))])
            return propagated(prior, terms, start, 1e-6, 50), at_mode(prior, terms, prior.mean, 1e-6, 50)

        return [float(fit.log_evidence) for fit in fits(unit**2 * K)]

    assert np.allclose(evidences(unit), evidences(1.0), rtol=0.0, atol=1e-3)


def test_a_singular_covariance_gets_numpy_s_jitter():
    singular = np.ones((N, N)) + np.diag(np.r_[-1e-9, np.zeros(N - 1)])
    expected = DensePrior(MEAN, np.asfortranarray(singular)).factorized()
    found = program()(factorized)(MEAN, singular)
    assert np.allclose(np.diagonal(np.array(found.covariance)) - np.diagonal(singular), expected.jitter, rtol=1e-6)
    assert np.isfinite(found.factor).all()
    assert not np.isfinite(program()(factorized)(MEAN, -singular).factor).all()


SMALL = np.array([[1.0, 0.6], [0.6, 1.0]])
COUNTS = np.array([0.0, 5.0])
MIDDLE, SCALE = 0.5, 0.8
# The variance of f above which a search is said not to have converged.
LARGEST = 2.5


def poor(prior, terms, start, largest=LARGEST):
    """Sites that know nothing of the data, and an evidence that is that of no model."""
    q = conditioned(prior, jnp.zeros(2), jnp.full(2, 0.3))
    return Fit(q, 0.0, start, 1, prior.variance[0] < largest)


def counts(theta=None):
    """Poisson counts, up to a constant."""
    return with_derivatives(lambda f: COUNTS * f - jnp.exp(f))


def target_of(data):
    """A variance exp(theta), with theta from N(MIDDLE, SCALE^2), for data that make twins of the model."""
    weight_of_prior, largest = data

    def prior(theta):
        log_prior = -0.5 * weight_of_prior * jnp.square((theta[0] - MIDDLE) / SCALE)
        return log_prior, jnp.zeros(2), jnp.exp(theta[0]) * SMALL

    fit = partial(poor, largest=largest)
    return Target(prior, counts, fit, lambda prior, terms: jnp.zeros(()), draws=2)


# Nodes for two independent standard normal variables.
NODES, WEIGHTS = (np.array(part) for part in normal_rule(60))
PAIRS = np.stack(np.meshgrid(NODES, NODES), axis=-1).reshape(-1, 2)


def integrals(theta):
    """Return p(y|theta), and the integral of f_2 p(y, f|theta), by quadrature."""
    f = np.exp(0.5 * theta) * PAIRS @ np.linalg.cholesky(SMALL).T
    weights = np.outer(WEIGHTS, WEIGHTS).ravel() * np.exp((COUNTS * f - np.exp(f)).sum(axis=1))
    return weights.sum(), weights @ f[:, 1]


def test_estimates_are_unbiased_and_a_twin_s_are_not(monkeypatch):
    def deviation():
        def estimate(key):
            prior = factorized(jnp.zeros(2), jnp.asarray(SMALL))
            return estimates.estimated(key, prior, poor(prior, counts(), None).q, counts(), 4).log_evidence

        found, truth = (
            np.exp(program()(jax.vmap(estimate))(jax.random.split(jax.random.key(1), 40_000))),
            integrals(0.0)[0],
        )
        assert found.std() > 0.5 * truth
        return abs(found.mean() - truth) / (found.std() / np.sqrt(len(found)))

    assert deviation() < 4.0
    # The twin draws from a wider q than the one with which it weighs.
    own = estimates.deviations
    monkeypatch.setattr(estimates, "deviations", lambda *known: 1.1 * own(*known))
    assert deviation() > 8.0


CHAINS, ITERATIONS, TRUTH = 256, 150, (1.0, LARGEST)
WALK = Proposal(*map(np.asarray, (0.6, 1.5, [-0.8], [[0.8]], [[1.25]])))


def runner():
    """Return a program that draws theta and f, (iterations, chains, ...), and reports, for given data and proposals."""
    programs = Chains(target_of)

    @program()
    def run(key, starts, data, proposal):
        states, start = programs._freeze(data, key, programs._begin(data, starts))

        def step(states, number):
            states, info = programs._draw(data, proposal, key, number, states, start)
            return states, (states.point.theta[:, 0], info)

        return jax.lax.scan(step, states, jnp.arange(1, ITERATIONS + 1))[1]

    starts = np.random.default_rng(4).uniform(0.2, 0.8, (CHAINS, 1))
    return lambda data=TRUTH, proposal=WALK: run(jax.random.key(3), starts, data, proposal)


@pytest.fixture(scope="module")
def run(quick_compilation):  # noqa: F811
    return runner()


GRID = np.linspace(-4.0, np.log(LARGEST), 400)


def exact_moments():
    """Return the posterior means of theta, theta squared, and f_2 where searches converge, by quadrature."""
    density = np.exp(-0.5 * np.square((GRID - MIDDLE) / SCALE))
    # The trapezoidal rule: the density is not small at the upper end.
    density[-1] *= 0.5
    values = np.array([integrals(theta) for theta in GRID]).T * density
    weights = values[0] / values[0].sum()
    return np.array([weights @ GRID, weights @ np.square(GRID), values[1].sum() / values[0].sum()])


def deviations(found):
    """Return the deviations of the chains' means from the posterior's, in standard errors between the chains."""
    theta, info = (np.array(part)[ITERATIONS // 3 :] for part in (found[0], found[1].latent))
    means = np.stack([theta, np.square(theta), info[:, :, 1]]).mean(axis=1)
    return np.abs(means.mean(axis=1) - exact_moments()) / (means.std(axis=1) / np.sqrt(CHAINS))


def test_chains_have_the_posterior_by_quadrature_where_fits_converge(run):
    found = run()
    assert deviations(found).max() < 4.0
    assert np.array(found[0]).max() < np.log(LARGEST)
    assert 0.05 < 1.0 - np.array(found[1].screened.converged).mean() < 0.95


@pytest.mark.parametrize(
    "twin",
    [
        {"data": (0.0, LARGEST)},
        {"data": (1.0, np.inf)},
        {"proposal": WALK._replace(inverse_factor=np.zeros((1, 1)))},
    ],
    ids=["no prior", "fits that have not converged are used", "no Hastings ratio"],
)
def test_twins_are_rejected(twin, run):
    assert deviations(run(**twin)).max() > 6.0


def test_a_twin_that_recomputes_the_estimate_of_its_state_is_rejected(monkeypatch):
    def recomputed(key, prior, q, terms, particle, draws, moves):
        latent, _ = estimates.renewed(key, prior, q, terms, particle, draws, moves)
        return latent, estimates.estimated(jax.random.fold_in(key, 9), prior, q, terms, draws)

    monkeypatch.setattr(chain, "renewed", recomputed)
    assert deviations(runner()()).max() > 6.0
