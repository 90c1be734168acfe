"""Gaussians with JAX's matrices against NumPy's: fits, gradients, and estimates from the same normals."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.approximations.propagation import propagated
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior, UnsupportedError
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit
from pmgp.core.likelihoods.ordinal import OrdinalProbit

jax = pytest.importorskip("jax")
from pmgp.core.dense_jax import programs  # noqa: E402
from pmgp.core.dense_jax.gaussians import JaxApproximation, JaxPrior  # noqa: E402
from tests.quick_compilation import quick_compilation  # noqa: E402, F401

N = 24
SAME = 1e-9
RNG = np.random.default_rng(5)
X = RNG.uniform(size=(N, 2))
K = 3.0 * np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / 0.2) + 1e-6 * np.eye(N)
MEAN = np.full(N, 0.3)
LABELS = (X[:, 0] + 0.3 * RNG.normal(size=N) > 0.5).astype(int)
LIKELIHOODS = {
    "probit": BernoulliProbit(LABELS),
    "logit": BernoulliLogit(LABELS),
    "ordinal": OrdinalProbit(LABELS + (X[:, 1] > 0.7), np.array([-0.5, 0.8])),
}
APPROXIMATIONS = {"ep": ExpectationPropagation(), "laplace": Laplace()}


def priors(covariance=K):
    with jax.enable_x64(True):
        return DensePrior(MEAN, np.asfortranarray(covariance)), JaxPrior(MEAN, jax.numpy.asarray(covariance))


def estimates(q, likelihood):
    made = ImportanceSampling(16).estimate(np.random.default_rng(3), q, likelihood)
    given = ImportanceSampling(16).estimate_given(np.random.default_rng(4), q, likelihood, q.mean + 0.1)
    return made, given


def agree(one, other):
    return all(abs(a.log_evidence - b.log_evidence) < SAME for a, b in zip(one, other, strict=True))


@pytest.fixture(params=LIKELIHOODS)
def likelihood(request):
    return LIKELIHOODS[request.param]


@pytest.fixture(params=APPROXIMATIONS)
def approximation(request):
    return APPROXIMATIONS[request.param]


def test_fits_have_the_same_evidence_gradient_and_estimates(likelihood, approximation):
    numpy, device = priors()
    near = approximation.start_from(approximation.fit(numpy, likelihood)) * 1.02
    for start in (None, near):
        expected, found = (approximation.fit(prior, likelihood, start) for prior in (numpy, device))
        assert abs(found.log_evidence - expected.log_evidence) < SAME
        assert (found.iterations, found.converged) == (expected.iterations, expected.converged)
        gradients = [approximation.evidence_gradient(q, likelihood) for q in (expected, found)]
        assert_allclose(np.tril(gradients[1].covariance), np.tril(gradients[0].covariance), atol=SAME)
        assert_allclose(gradients[1].mean, gradients[0].mean, atol=SAME)
        expected, found = (approximation.refine(q, likelihood) for q in (expected, found))
        assert_allclose(found.variance, expected.variance, atol=SAME)
        assert agree(estimates(found, likelihood), estimates(expected, likelihood))


def test_weights_without_the_log_normalizer_are_rejected(monkeypatch):
    likelihood = LIKELIHOODS["logit"]
    expected, found = (Laplace().fit(prior, likelihood) for prior in priors())
    monkeypatch.setattr(JaxApproximation, "log_normalizer", 0.0)
    assert not agree(estimates(found, likelihood), estimates(expected, likelihood))


def replaced(found, expected):
    """Whether a fit is flagged, and is what NumPy puts in its place."""
    return not found.converged and abs(found.log_evidence - expected.log_evidence) < SAME


def test_sweeps_that_do_not_converge_are_replaced_and_flagged():
    approximation, likelihood = ExpectationPropagation(tolerance=1e-13, max_sweeps=1), LIKELIHOODS["logit"]
    expected, found = (approximation.fit(prior, likelihood) for prior in priors())
    assert replaced(found, expected)
    # A twin that uses what the sweep has reached.
    reached = propagated(found.conditioned(), likelihood, np.inf, 1)
    assert not replaced(reached, expected)


def test_sites_far_from_informative_are_drawn_with_a_product():
    quiet, normals = 1e-9 * np.ones(N), RNG.normal(size=(2, 3, N))
    found = []
    for prior in priors():
        conditioned = prior.conditioning()
        assert conditioned.on(np.zeros(N), quiet)
        found.append(conditioned.approximation(0.0, 1).deviations_from(normals))
    assert_allclose(found[1], found[0], atol=SAME)


def test_a_singular_covariance_gets_numpy_s_jitter():
    singular = np.ones((N, N)) + np.diag(np.r_[-1e-9, np.zeros(N - 1)])
    expected, found = (prior.factorized() for prior in priors(singular))
    assert found.jitter == expected.jitter > 0.0
    assert_allclose(found.deviations_from(np.eye(N)), expected.deviations_from(np.eye(N)), atol=1e-6)


def test_an_indefinite_covariance_has_no_fit(likelihood, approximation):
    device = priors(np.where(np.eye(N) == 1.0, np.nan, K))[1]
    assert not device.is_finite
    assert approximation.fit(device, likelihood) is None
    assert priors(-K)[1].factorized() is None


def test_triangles_are_inverted_by_halves():
    factor = np.linalg.cholesky(np.kron(np.eye(4), K) + 0.1)
    with jax.enable_x64(True):
        found = programs.inverse_of_triangle(jax.numpy.asarray(factor), 16)
    assert_allclose(found, np.linalg.inv(factor), atol=1e-10)


def test_products_with_the_covariances():
    likelihood, x = LIKELIHOODS["probit"], RNG.normal(size=N)
    numpy, device = priors()
    assert_allclose(device.product(x), numpy.product(x))
    expected, found = (Laplace().fit(prior, likelihood).product(x) for prior in (numpy, device))
    assert_allclose(found, expected, atol=SAME)


def test_double_precision_does_not_depend_on_the_flag():
    before = jax.config.jax_enable_x64
    with jax.enable_x64(False):
        q = Laplace().fit(priors()[1], LIKELIHOODS["probit"])
        assert q.factor.dtype == np.float64
        assert not jax.config.jax_enable_x64
    assert jax.config.jax_enable_x64 == before


def test_what_other_algorithms_need_is_refused_in_words():
    device = priors()[1]
    q = Laplace().fit(device, LIKELIHOODS["probit"])
    for call in (lambda: q.site_groups(3), lambda: q.project(K), lambda: q.regressions(MEAN), lambda: device.shrunk(1)):
        with pytest.raises(UnsupportedError, match='backend="numpy"'):
            call()
