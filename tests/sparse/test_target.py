"""The target on inducing inputs: against the dense model, the collapsed bound, the evidence, finite differences."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from tests.finite_differences import central_differences
from tests.sparse.problems import (
    COUNTS,
    LABELS,
    TARGETS,
    X,
    gaussian,
    hyperparameters,
    poisson,
    probit,
    sparse,
    sparse_gaussian,
    value_and_gradient,
)

NESTED = X[::9], X[::3], X


NOISY = {
    "sum": lambda kernel: kernel,
    "weighted sum": lambda kernel: pmgp.gp.KernelSum([kernel], [1.0]),
    "power": lambda kernel: kernel**1,
}


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("form", NOISY)
def test_rows_do_not_share_white_noise(columns, form):
    """In one column of numbers, rows that equal inducing inputs are found; each of them has its own noise."""
    rows = np.repeat(np.arange(4.0), 2)[:, None] * np.eye(1, columns)
    with pm.Model():
        cov_func = NOISY[form](pm.gp.cov.ExpQuad(columns, ls=1.0) + pm.gp.cov.WhiteNoise(0.5))
        left = pmgp.gp.Sparse(cov_func=cov_func).prior("f", X=rows, Xu=np.unique(rows, axis=0)).variance.eval()
    K = np.exp(-0.5 * np.square(np.arange(4.0)[:, None] - np.arange(4.0)))
    expected = 1.25 - np.einsum("ij,ij->j", K, np.linalg.solve(K + 0.25 * np.eye(4), K))
    np.testing.assert_allclose(left, np.repeat(expected, 2), rtol=1e-4)


def dense_poisson(name, f, observed):
    pm.Poisson(name, pm.math.exp(f), observed=observed)


def dense(distribution, observed):
    with pm.Model() as model:
        f = pm.gp.Latent(cov_func=hyperparameters()).prior("f", X=X, jitter=1e-10)
        distribution("y", f, observed=observed)
    return model


@pytest.mark.parametrize(
    ("dist", "distribution", "observed"),
    [
        (poisson, dense_poisson, COUNTS),
        (probit, pmgp.BernoulliProbit, LABELS),
    ],
    ids=["closed form", "quadrature"],
)
def test_inducing_inputs_at_all_points_are_the_dense_model(rng, dist, distribution, observed):
    value, gradient, size = value_and_gradient(sparse(X, dist, observed)[0])
    true_value, true_gradient, _ = value_and_gradient(dense(distribution, observed))
    for _ in range(5):
        point = rng.standard_normal(size)
        np.testing.assert_allclose(value(point), true_value(point), atol=1e-6)
        np.testing.assert_allclose(gradient(point), true_gradient(point), atol=1e-6)


def test_fewer_are_not():
    """The test above on two thirds of the inducing inputs."""
    value, _, size = value_and_gradient(sparse(NESTED[1])[0])
    true_value, _, _ = value_and_gradient(dense(dense_poisson, COUNTS))
    assert abs(value(np.zeros(size)) - true_value(np.zeros(len(X) + 2))) > 0.01


def kernel(A, B, lengthscale, variance):
    r = np.sqrt(5.0) * np.abs(A - B.T) / lengthscale
    return variance * (1.0 + r + np.square(r) / 3.0) * np.exp(-r)


def collapsed(theta, Z):
    """Titsias' bound, from its formula, and the priors of theta's logarithms."""
    noise, variance, lengthscale = np.exp(theta)
    inner = kernel(Z, Z, lengthscale, variance) + 1e-10 * np.eye(len(Z))
    A = np.linalg.solve(np.linalg.cholesky(inner), kernel(Z, X, lengthscale, variance))
    bound = multivariate_normal.logpdf(TARGETS, cov=A.T @ A + noise**2 * np.eye(len(X)))
    bound -= (variance - np.square(A).sum(axis=0)).sum() / (2.0 * noise**2)
    return bound + log_prior(theta)


def log_prior(theta):
    deviations = (theta - np.array([-1.0, 0.0, 0.0])) / 0.5
    return float(-0.5 * np.square(deviations).sum() - 3.0 * np.log(0.5 * np.sqrt(2.0 * np.pi)))


@cache
def gaussian_functions(number):
    return value_and_gradient(sparse_gaussian(NESTED[number]))


def integrated(theta, number):
    """The integral of exp(value) over v, in which with Gaussian noise the value is quadratic."""
    value, gradient, size = gaussian_functions(number)
    origin = np.concatenate([theta, np.zeros(size - 3)])
    slope = gradient(origin)[3:]
    curvature = np.array([slope - gradient(origin + unit)[3:] for unit in np.eye(size)[3:]])
    log_determinant = np.linalg.slogdet(curvature / (2.0 * np.pi))[1]
    return value(origin) + 0.5 * slope @ np.linalg.solve(curvature, slope) - 0.5 * log_determinant


THETAS = np.random.default_rng(1).normal([-1.0, 0.0, 0.0], 0.5, size=(4, 3))


@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("number", range(3))
def test_with_gaussian_noise_v_integrates_out_to_the_collapsed_bound(theta, number):
    np.testing.assert_allclose(integrated(theta, number), collapsed(theta, NESTED[number]), atol=1e-8)


@pytest.mark.parametrize("theta", THETAS)
def test_it_is_a_bound_that_more_inducing_inputs_tighten(theta):
    noise, variance, lengthscale = np.exp(theta)
    covariance = kernel(X, X, lengthscale, variance) + noise**2 * np.eye(len(X))
    evidence = multivariate_normal.logpdf(TARGETS, cov=covariance) + log_prior(theta)
    bounds = [integrated(theta, number) for number in range(3)]
    assert bounds[0] < bounds[1] < bounds[2] < evidence + 1e-6
    np.testing.assert_allclose(bounds[2], evidence, atol=1e-6)


def test_a_covariance_for_each_class_has_the_derivatives_of_finite_differences(rng):
    classes = np.array([0, 1, 2, 2, 1, 0, 0, 2, 1, 0])
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5, shape=3)
        process = pmgp.gp.Sparse(
            mean_func=pm.gp.mean.Constant(pm.Normal("level")),
            cov_func=[pm.gp.cov.Matern52(1, ls=scale[k]) for k in range(3)],
        )
        f = process.prior("f", X=X, Xu=NESTED[1], n_outputs=3)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=classes)
    check_gradient(model, rng)


@pytest.mark.parametrize(("dist", "observed"), [(poisson, COUNTS), (probit, LABELS)])
def test_derivatives_are_those_of_finite_differences(rng, dist, observed):
    check_gradient(sparse(NESTED[1], dist, observed)[0], rng)


def check_gradient(model, rng):
    value, gradient, size = value_and_gradient(model)
    point = 0.7 * rng.standard_normal(size)
    np.testing.assert_allclose(gradient(point), central_differences(value, point, 1e-3), rtol=1e-7, atol=1e-7)


def test_outputs_are_independent_copies(rng):
    """Counts of two processes: the sum of what each has by itself."""
    both = np.stack([COUNTS, COUNTS[::-1]])
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=NESTED[1], n_outputs=2, jitter=1e-10)
        process.observe("y", f, dist=poisson, observed=both)
    value, _, size = value_and_gradient(model)
    point = rng.standard_normal(size)
    theta, v = point[:2], point[2:].reshape(2, -1)
    singles = [value_and_gradient(sparse(NESTED[1], observed=row)[0])[0] for row in both]
    prior = -0.5 * np.square(theta / 0.5).sum() - 2.0 * np.log(0.5 * np.sqrt(2.0 * np.pi))
    expected = sum(single(np.concatenate([theta, own])) for single, own in zip(singles, v, strict=True)) - prior
    np.testing.assert_allclose(value(point), expected, atol=1e-10)


def test_gaussian_noise_is_an_argument():
    with pm.Model():
        noise = pm.LogNormal("noise")
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=NESTED[1])
        with pytest.raises(ValueError, match="dist uses 'noise' of the model without being given it"):
            process.observe("y", f, dist=lambda f: gaussian(f, noise), observed=TARGETS)
