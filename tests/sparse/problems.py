"""Small models on inducing inputs, and functions of theirs that need no compilation."""

from __future__ import annotations

import numpy as np
import pymc as pm

import pmgp
from pmgp.interface.graphs.compilation import INTERPRETED

# Far enough apart that K of a Matérn covariance is well conditioned.
X = np.array([[0.0], [0.7], [1.1], [2.0], [2.6], [3.1], [3.9], [4.4], [5.2], [5.9]])
COUNTS = np.array([0, 2, 1, 4, 3, 1, 0, 0, 2, 5])
LABELS = (COUNTS > 1).astype(int)
TARGETS = np.sin(X[:, 0]) + np.array([0.1, -0.2, 0.05, 0.3, -0.1, 0.0, 0.2, -0.3, 0.1, 0.0])


def hyperparameters():
    """A covariance function, its length-scale and variance positive random variables; within a model."""
    return pm.LogNormal("variance", 0.0, 0.5) * pm.gp.cov.Matern52(1, ls=pm.LogNormal("lengthscale", 0.0, 0.5))


def poisson(f):
    return pm.Poisson.dist(mu=pm.math.exp(f))


def probit(f):
    return pmgp.BernoulliProbit.dist(f)


def gaussian(f, noise):
    return pm.Normal.dist(f, noise)


def sparse(Z, dist=poisson, observed=COUNTS, jitter=1e-10, inputs=X, **options):
    """A model and its process."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=inputs, Xu=Z, jitter=jitter)
        process.observe("y", f, dist=dist, observed=observed, **options)
    return model, process


def sparse_gaussian(Z, jitter=1e-10):
    return sparse_gaussian_process(Z, jitter)[0]


def sparse_gaussian_process(Z, jitter=1e-10):
    """A model with noise among its variables, and its process."""
    with pm.Model() as model:
        noise = pm.LogNormal("noise", -1.0, 0.5)
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=Z, jitter=jitter)
        process.observe("y", f, noise, dist=gaussian, observed=TARGETS)
    return model, process


def value_and_gradient(model):
    """Return value and gradient of the log-density as functions of a vector, and the vector's length."""
    variables = model.continuous_value_vars
    sizes = [int(np.prod(value.type.shape)) for value in variables]
    value = model.compile_fn(model.logp(), inputs=variables, mode=INTERPRETED)
    gradient = model.compile_fn(model.dlogp(), inputs=variables, mode=INTERPRETED)

    def point(vector):
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return {v.name: part.reshape(v.type.shape) for v, part in zip(variables, parts, strict=True)}

    return lambda x: float(value(point(x))), lambda x: gradient(point(x)), sum(sizes)
