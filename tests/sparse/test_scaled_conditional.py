"""The bound by a conditional of less variance: below the evidence, above the default's, and with the same parts."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm, poisson

import pmgp
from pmgp.core.numerics.quadrature import normal_rule
from pmgp.interface.sparse.bound import BoundFunction
from pmgp.interface.sparse.likelihood import LatentLikelihood
from pmgp.interface.sparse.parts import SparseParts
from tests.finite_differences import central_differences
from tests.sparse.problems import COUNTS, LABELS, TARGETS, X, gaussian, hyperparameters, probit, value_and_gradient
from tests.sparse.problems import poisson as poisson_of
from tests.sparse.test_target import THETAS, collapsed, kernel, log_prior

Z = X[::3]
NEAR = np.array([[0.0], [0.3], [0.5]])
"""Points whose values are strongly correlated given the process at the first inducing input."""


def counts(scaled, inputs=X, Z=Z, observed=COUNTS):
    """A model of counts and its process."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters(), scaled_conditional=scaled)
        f = process.prior("f", X=inputs, Xu=Z, jitter=1e-10)
        process.observe("y", f, dist=poisson_of, observed=observed)
    return model, process


def targets(scaled):
    """A model of targets with noise and its process."""
    with pm.Model() as model:
        noise = pm.LogNormal("noise", -1.0, 0.5)
        process = pmgp.gp.Sparse(cov_func=hyperparameters(), scaled_conditional=scaled)
        f = process.prior("f", X=X, Xu=Z, jitter=1e-10)
        process.observe("y", f, noise, dist=gaussian, observed=TARGETS)
    return model, process


def tighter(theta):
    """Titsias' bound of 2025, from its formula, and the priors of theta's logarithms."""
    noise, variance, lengthscale = np.exp(theta)
    A = np.linalg.solve(np.linalg.cholesky(kernel(Z, Z, lengthscale, variance)), kernel(Z, X, lengthscale, variance))
    left = variance - np.square(A).sum(axis=0)
    bound = multivariate_normal.logpdf(TARGETS, cov=A.T @ A + noise**2 * np.eye(len(X)))
    return bound - 0.5 * np.log1p(left / noise**2).sum() + log_prior(theta)


@pytest.fixture(scope="module")
def gaussian_functions():
    return value_and_gradient(targets(True)[0])


def integrated(functions, theta):
    """The integral of exp(value) over v, in which the value is quadratic."""
    value, gradient, size = functions
    origin = np.concatenate([theta, np.zeros(size - 3)])
    slope = gradient(origin)[3:]
    curvature = np.array([slope - gradient(origin + unit)[3:] for unit in np.eye(size)[3:]])
    log_determinant = np.linalg.slogdet(curvature / (2.0 * np.pi))[1]
    return value(origin) + 0.5 * slope @ np.linalg.solve(curvature, slope) - 0.5 * log_determinant


@pytest.mark.full
@pytest.mark.parametrize("theta", THETAS)
def test_with_gaussian_noise_v_integrates_out_to_the_tighter_collapsed_bound(theta, gaussian_functions):
    found = integrated(gaussian_functions, theta)
    noise, variance, lengthscale = np.exp(theta)
    covariance = kernel(X, X, lengthscale, variance) + noise**2 * np.eye(len(X))
    evidence = multivariate_normal.logpdf(TARGETS, cov=covariance) + log_prior(theta)
    np.testing.assert_allclose(found, tighter(theta), atol=1e-7)
    assert collapsed(theta, Z) + 1e-3 < found < evidence


def given_an_inducing_value(lengthscale, variance, v):
    """Means and covariance at near points given a value at the first, in their own words."""
    across = kernel(NEAR[:1], NEAR, lengthscale, variance)[0] / np.sqrt(variance)
    return across * v, kernel(NEAR, NEAR, lengthscale, variance) - np.outer(across, across)


@cache
def near(scaled, observed):
    """The log-density of counts at near points, with one inducing input."""
    return value_and_gradient(counts(scaled, NEAR, NEAR[:1], np.array(observed))[0])[0]


def density_of_counts(observed, mean, covariance):
    """Log p(y) by quadrature over latent values that are normal together."""
    nodes, weights = normal_rule(40)
    z, w = (np.array(list(product(part, repeat=len(mean)))) for part in (nodes, weights))
    factor = np.linalg.cholesky(covariance + 1e-12 * np.eye(len(mean)))
    logs = poisson.logpmf(observed, np.exp(mean + z @ factor.T)).sum(axis=1)
    return logsumexp(logs + np.log(w).sum(axis=1))


@pytest.mark.full
@pytest.mark.parametrize("observed", [(0, 3, 2), (9, 30, 5)])
@pytest.mark.parametrize(("lengthscale", "variance", "v"), [(0.3, 4.0, 0.5), (1.0, 2.0, 1.5), (0.3, 9.0, -0.4)])
def test_at_every_v_it_is_between_the_default_and_the_density_of_the_counts(observed, lengthscale, variance, v):
    log_density = density_of_counts(observed, *given_an_inducing_value(lengthscale, variance, v))
    point = np.array([np.log(variance), np.log(lengthscale), v])
    prior = norm.logpdf(point[:2], 0.0, 0.5).sum() + norm.logpdf(v)
    default, scaled = (near(scaled, observed)(point) - prior for scaled in (False, True))
    assert default + 1e-6 < scaled < log_density


def test_terms_of_independent_values_would_be_no_bound():
    """A twin: the sum of log E p(y|f) is above the density of counts that differ where latent values hardly do."""
    mean, covariance = given_an_inducing_value(0.8, 4.0, 0.5)
    alone = [density_of_counts(9 * k, mean[k + 1 : k + 2], covariance[k + 1 :, k + 1 :][:1, :1]) for k in (0, 1)]
    assert sum(alone) > density_of_counts([0, 9], mean[1:], covariance[1:, 1:]) + 1.0


@pytest.mark.full
def test_inducing_inputs_at_all_points_leave_nothing_to_scale(rng):
    default, scaled = (value_and_gradient(counts(scaled, Z=X)[0]) for scaled in (False, True))
    point = rng.standard_normal(default[2])
    np.testing.assert_allclose(scaled[0](point), default[0](point), atol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("make", [counts, targets])
def test_derivatives_are_those_of_finite_differences(make, rng):
    value, gradient, size = value_and_gradient(make(True)[0])
    point = 0.7 * rng.standard_normal(size)
    np.testing.assert_allclose(gradient(point), central_differences(value, point, 1e-3), rtol=1e-7, atol=1e-7)


@pytest.mark.full
@pytest.mark.parametrize("make", [counts, targets])
def test_the_parts_that_the_samplers_take_are_the_model_s(make, rng):
    model, _ = make(True)
    parts = SparseParts(model, model.initial_point())
    value, gradient, size = value_and_gradient(model)
    point = 0.5 * rng.standard_normal(size)
    theta, v = point[: size - len(Z)], point[None, size - len(Z) :]
    log_prior, conditional = parts.at(theta)
    latent = conditional.latent(v)
    density = log_prior + conditional.log_density(v, latent) - 0.5 * len(Z) * np.log(2.0 * np.pi)
    np.testing.assert_allclose(density, value(point), atol=1e-10)
    slope = conditional.pulled_back(conditional.derivatives(latent).slope) - v
    np.testing.assert_allclose(slope[0], gradient(point)[-len(Z) :], atol=1e-10)


@pytest.mark.full
def test_the_optimized_bound_is_the_tighter_collapsed_one():
    model, process = targets(True)
    with model:
        found = pmgp.gp.optimize_inducing(process, inducing=False, progressbar=False)
    theta = np.log([float(found.point[name]) for name in ("noise", "variance", "lengthscale")])
    np.testing.assert_allclose(found.log_evidence, tighter(theta) - log_prior(theta), atol=1e-4)


@pytest.mark.full
def test_of_a_gaussian_q_of_counts_it_is_no_more_than_the_expectation_over_it(rng):
    """By draws of v, with four Monte Carlo standard errors; and its gain over the default is no rounding error."""
    function, plain = (
        BoundFunction(process, model, model.initial_point()) for model, process in (counts(True), counts(False))
    )
    at, model = function.start(), counts(True)[0]
    _, conditional = SparseParts(model, model.initial_point()).at(at.theta)
    draws = at.mean + np.einsum("kij,skj->ski", at.factor, rng.standard_normal((4000, *at.mean.shape)))
    values = np.array([conditional.value(conditional.latent(v)) for v in draws])
    prior, error = function.log_prior(at.theta), values.std() / np.sqrt(len(values))
    assert plain(at).value + 1e-4 < function(at).value < values.mean() + prior + 4.0 * error


@pytest.mark.full
def test_the_diagnosis_is_of_the_target():
    """At the same draws the penalty is smaller."""
    (model, process), (whole, default) = counts(True), counts(False)
    settings = {"tune": 30, "draws": 50, "chains": 1, "progressbar": False, "compute_convergence_checks": False}
    idata = pm.sample(model=whole, step=pmgp.steps.SparseGibbs(model=whole), random_seed=1, **settings)
    scaled, plain = (gp.diagnose(idata, model=of).penalty for gp, of in ((process, model), (default, whole)))
    assert 0.0 < scaled < plain - 1e-3


@pytest.mark.full
def test_outputs_are_independent_copies(rng):
    """Counts of two processes: the sum of what each has by itself."""
    both = np.stack([COUNTS, COUNTS[::-1]])
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters(), scaled_conditional=True)
        f = process.prior("f", X=X, Xu=Z, n_outputs=2, jitter=1e-10)
        process.observe("y", f, dist=poisson_of, observed=both)
    value, _, size = value_and_gradient(model)
    point = rng.standard_normal(size)
    theta, v = point[:2], point[2:].reshape(2, -1)
    singles = [value_and_gradient(counts(True, observed=row)[0])[0] for row in both]
    expected = sum(single(np.concatenate([theta, own])) for single, own in zip(singles, v, strict=True))
    expected -= norm.logpdf(theta, 0.0, 0.5).sum()
    np.testing.assert_allclose(value(point), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("dist", "observed"), [(probit, LABELS), (lambda f: pm.Poisson.dist(mu=pm.math.log1pexp(f)), COUNTS)]
)
def test_likelihoods_for_which_it_is_not_known_to_be_a_bound_are_refused(dist, observed):
    with pm.Model():
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(1, ls=1.0), scaled_conditional=True)
        f = process.prior("f", X=X, Xu=Z)
        with pytest.raises(ValueError, match="the distribution of 'y', the target is not known to be a bound then"):
            process.observe("y", f, dist=dist, observed=observed)


def test_what_falls_along_a_chord_is_what_is_claimed_of_the_closed_forms():
    """Expectations that are called concave are above the chord from no variance on; the probit's are not."""
    variance = np.linspace(0.0, 3.0, 31)
    mean = pt.as_tensor(np.full(31, 0.7))
    known = [(poisson_of, 2), (lambda f: pm.Normal.dist(2.0 * f, 0.7), 0.3)]
    for dist, y in known:
        likelihood = LatentLikelihood(dist, 20)
        assert likelihood.scalable(pt.vector())
        values = likelihood.expected_log(pt.as_tensor(np.full(31, y)), mean, pt.as_tensor(variance)).eval()
        chord = np.interp(variance, variance[[0, -1]], values[[0, -1]])
        assert (values - chord > -1e-10).all()
    assert not LatentLikelihood(probit, 20).scalable(pt.vector())
