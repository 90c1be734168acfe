"""A Gaussian approximation's sites in the place of a search for modes: the same target, and PyMC's contract."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pymc as pm
import pytest

import pmgp
from pmgp.core.inducing import Derivatives, GaussianFit, Sites, fitted, fitted_by_sites
from pmgp.interface.sampling.plain import from_bytes, to_bytes
from tests.sparse.problems import COUNTS, TARGETS, X, gaussian, hyperparameters, poisson, sparse
from tests.sparse.test_gibbs import chain
from tests.theta_updates import agreement

Z = X[::3]


def optimized(model, process, **settings):
    with model:
        return pmgp.gp.optimize_inducing(process, inducing=False, progressbar=False, **settings)


def classes():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=Z, n_outputs=3)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=np.digitize(COUNTS, [1, 3]))
    return model, process


@pytest.fixture(scope="module")
def approximated():
    """A step for classes that follows an approximation."""
    model, process = classes()
    return pmgp.steps.SparseGibbs(model=model, approximation=optimized(model, process, max_iterations=30))


def test_with_gaussian_noise_they_are_the_likelihood(rng):
    """At every theta the Gaussian by them is the one that the search finds, q being one for another theta."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(mean_func=pm.gp.mean.Constant(pm.Normal("level")), cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=Z, n_outputs=2)
        process.observe("y", f, 0.3, dist=gaussian, observed=np.stack([TARGETS, -TARGETS]))
    step = pmgp.steps.SparseGibbs(model=model, approximation=optimized(model, process, max_iterations=3))
    for theta in 0.5 * rng.standard_normal((3, 3)):
        _, conditional = step.function.at(theta)
        found = fitted_by_sites(conditional, step.sites)
        expected = fitted(conditional, np.zeros(step.function.shape))
        np.testing.assert_allclose(found.mode, expected.mode, atol=1e-8)
        for factor, other in zip(found.factors, expected.factors, strict=True):
            np.testing.assert_allclose(np.tril(factor), np.tril(other), rtol=1e-9)


def test_at_the_largest_bound_they_give_q_back():
    """For counts, q's precision and mean are the derivatives averaged over q (Opper and Archambeau 2009)."""
    model, process = sparse(Z)
    found = optimized(model, process)
    step = pmgp.steps.SparseGibbs(model=model, approximation=found)
    theta = step.function.theta_of({f"{name}_log__": np.log(value) for name, value in found.point.items()})
    fit = fitted_by_sites(step.function.at(theta)[1], step.sites)
    precision = np.tril(fit.factors[0]) @ np.tril(fit.factors[0]).T
    np.testing.assert_allclose(fit.mode, found.mean, atol=2e-3)
    np.testing.assert_allclose(np.linalg.inv(precision), found.factor[0] @ found.factor[0].T, atol=2e-3)


def test_slopes_alone_are_those_that_come_with_curvatures(approximated, rng):
    theta = 0.5 * rng.standard_normal(2)
    (_, alone), (_, together) = (approximated.function.at(theta, slopes_alone=alone) for alone in (True, False))
    latent = rng.standard_normal((3, len(X)))
    np.testing.assert_allclose(alone.slope(latent), together.derivatives(latent).slope, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(together.slope(latent), together.derivatives(latent).slope)


def test_curvatures_that_are_positive_count_as_none():
    sites = Sites.about(np.array([[0.5, 2.0]]), Derivatives(np.ones((1, 2)), np.array([[0.3, -4.0]])))
    np.testing.assert_array_equal(sites.precision, [[0.0, 4.0]])
    np.testing.assert_array_equal(sites.linear, [[1.0, 9.0]])


def test_hyperparameters_and_values_of_classes_move(approximated):
    approximated.setup_chain(np.random.default_rng(1), 100, 60)
    point, statistics = approximated._named(np.zeros(approximated.dimension)), []
    for iteration in range(160):
        if iteration == 100:
            approximated.stop_tuning()
        point, [row] = approximated.step(point)
        statistics.append(row)
    kept = statistics[100:]
    assert np.mean([row["theta_acceptance"] for row in kept]) > 0.1
    assert np.mean([row["trajectory_acceptance"] for row in kept]) > 0.5


@pytest.mark.parametrize(("tune", "draws"), [(3, 0), (30, 2)])
def test_a_restored_state_brings_them_along(approximated, tune, draws):
    """Also to a step that has not been given them, by a state that was stored."""
    point = chain(approximated, seed=1, tune=tune, draws=draws)[1]
    state, copy = approximated.sampling_state, pickle.loads(pickle.dumps(approximated))
    stored = to_bytes(state)
    expected, _ = chain(approximated, begin=1, tune=0, draws=5, point=point)
    other = pmgp.steps.SparseGibbs(model=classes()[0])
    other.setup_chain(np.random.default_rng(9), tune, draws)
    other.sampling_state = from_bytes(stored)
    for step in (copy, other):
        np.testing.assert_array_equal(chain(step, begin=1, tune=0, draws=5, point=point)[0], expected)


def test_though_they_have_only_begun_the_target_is_the_posterior_where_all_points_are_inducing(posterior):
    assert agreement.distance(approximated_moments(), posterior) < 4.0


def test_without_the_jacobian_it_is_not(posterior, monkeypatch):
    monkeypatch.setattr(GaussianFit, "log_jacobian", 0.0)
    assert agreement.distance(approximated_moments(), posterior) > 4.0


@cache
def barely_approximated():
    """A step that follows an approximation after one iteration; every chain forgets the one before."""
    model, process = sparse(X, jitter=1e-8)
    found = optimized(model, process, max_iterations=1, start={"lengthscale": 3.0})
    return model, pmgp.steps.SparseGibbs(model=model, approximation=found)


def approximated_moments():
    model, step = barely_approximated()
    return agreement.moments(agreement.sample(model, step=step, tune=500, draws=2000, random_seed=6))


def test_an_approximation_of_another_number_of_observations_is_refused_before_a_chain_begins():
    with pm.Model() as model:
        inputs, observed = pm.Data("X", X), pm.Data("observed", COUNTS)
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        process.observe("y", process.prior("f", X=inputs, Xu=Z), dist=poisson, observed=observed)
    step = pmgp.steps.SparseGibbs(model=model, approximation=optimized(model, process, max_iterations=1))
    step.setup_chain(np.random.default_rng(0), 0, 1)
    with model:
        pm.set_data({"X": X[:4], "observed": COUNTS[4:8]})
    with pytest.raises(
        ValueError, match="the approximation was made for 10 observations, but the model now has 4: make"
    ):
        step.setup_chain(np.random.default_rng(0), 0, 1)


def test_an_approximation_of_another_model_is_refused():
    found = optimized(*sparse(Z), max_iterations=1)
    with pytest.raises(
        ValueError, match=r"has values 'f_rotated_' of shape \(1, 4\), but the model .* of shape \(3, 4\)"
    ):
        pmgp.steps.SparseGibbs(model=classes()[0], approximation=found)
