"""Where the optimization of the bound begins: not where inducing inputs tell nothing, as nothing leads away."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.core.inducing import bound
from pmgp.interface.sparse.beginning import beginning, uninformative
from pmgp.interface.sparse.bound import BoundFunction
from tests.sparse.problems import X, poisson, sparse

CLASSES = 3


def clusters(labels=None, outputs=None, distance=8.0):
    """A hundred points about a center for each class, so far apart, and a prior that has length-scales at one."""
    rng = np.random.default_rng(7)
    true = rng.integers(0, CLASSES, 100)
    inputs = distance * (rng.standard_normal((CLASSES, 6))[true] + 0.5 * rng.standard_normal((100, 6)))
    with pm.Model() as model:
        scale = pm.Gamma("lengthscale", 3, 3, shape=outputs)
        variance = pm.Gamma("variance", 3, 3)
        each = [scale] if outputs is None else [scale[k] for k in range(outputs)]
        covs = [variance * pm.gp.cov.ExpQuad(6, ls=ls) for ls in each]
        process = pmgp.gp.Sparse(cov_func=covs[0] if outputs is None else covs)
        f = process.prior("f", X=inputs, Xu=pmgp.gp.select_inducing(inputs, 12, random_seed=1), n_outputs=CLASSES)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=true if labels is None else labels)
    return model, process


def function_of(model, process):
    return BoundFunction(process, model, model.initial_point())


def quietly(model, process):
    return pmgp.gp.optimize_inducing(process, model=model, inducing=False, max_iterations=20, progressbar=False)


@pytest.mark.parametrize("outputs", [None, CLASSES])
def test_classes_are_told_apart_from_a_length_scale_far_below_the_distances(outputs):
    """Where it stays there, the bound is that of guesses, and predictions at new inputs are the prior's."""
    model, process = clusters(outputs=outputs)
    guesses = 100 * (np.log(1e-3 / 2) * 2 / 3 + np.log(0.999) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = quietly(model, process)
    function = function_of(model, process)
    assert bound(function, function.start()).value < guesses + 30.0
    assert found.bounds[-1] > 0.5 * guesses
    assert np.min(found.point["lengthscale"]) > 3.0


def test_what_is_told_is_the_share_of_the_prior_variance():
    model, process = sparse(X[:3], jitter=0.0)
    function = function_of(model, process)
    point = model.initial_point()
    theta = function.parts.theta_of(point)
    scale = np.exp(point["lengthscale_log__"])

    def correlation(distance):
        z = np.sqrt(5.0) * np.abs(distance) / scale
        return (1.0 + z + z**2 / 3.0) * np.exp(-z)

    cross = correlation(X - X[:3].T)
    told = np.einsum("nm,nm->n", cross @ np.linalg.inv(correlation(X[:3] - X[:3].T)), cross)
    np.testing.assert_allclose(function.parts.explained_shares(theta), told[None], rtol=1e-6)


def test_where_inducing_inputs_tell_of_others_it_begins_as_it_is():
    model, process = sparse(X[::3], poisson)
    function = function_of(model, process)
    for part, other in zip(beginning(function), function.start(), strict=True):
        np.testing.assert_array_equal(part, other)


def test_observations_at_inducing_inputs_do_not_count():
    """They are told at any length-scale, of each other nothing."""
    model, process = sparse(X[::2])
    function = function_of(model, process)
    theta = function.parts.theta_of(model.initial_point())
    assert not uninformative(function, theta)
    assert uninformative(function, theta - np.log(50.0) * np.isin(function.parts.theta_names, "lengthscale_log__"))


def test_it_stays_where_the_bound_is_larger_and_says_that_nothing_is_told():
    """Labels that have nothing to do with inputs, and a prior that has no room for their distances."""
    model, process = clusters(labels=np.random.default_rng(8).integers(0, CLASSES, 100), distance=800.0)
    with pytest.warns(UserWarning, match="hardly inform those at other inputs"):
        found = quietly(model, process)
    assert found.point["lengthscale"] < 2.0
