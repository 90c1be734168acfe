"""Inducing inputs optimized with a Gaussian q(v): the bound against the evidence, its gradient, and the start."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pymc as pm
import pytest
from scipy.stats import multivariate_normal

import pmgp
from pmgp.core.inducing import ExpectedLogDensity, Variational, bound, maximized
from pmgp.core.inducing.optimization import VariationalCoordinates
from pmgp.interface.sparse.bound import BoundFunction
from tests.finite_differences import central_differences
from tests.sparse.problems import COUNTS, TARGETS, X, gaussian, hyperparameters, sparse, sparse_gaussian_process

QUIET = {"progressbar": False}
# Jitter of K_uu, PyMC's default, which its own approximation has.
JITTER = 1e-6


def optimized(model, process, **settings):
    with model:
        return pmgp.gp.optimize_inducing(process, **QUIET | settings)


@pytest.fixture(scope="module")
def counts():
    """Poisson counts, and four inducing inputs that begin at the left."""
    model, process = sparse(np.array([[-1.0], [-0.5], [0.0], [0.5]]))
    return model, process, optimized(model, process)


@pytest.fixture(scope="module")
def targets():
    """Gaussian targets, and five inducing inputs that stay."""
    model, process = sparse_gaussian_process(pmgp.gp.select_inducing(X, 5, random_seed=1), JITTER)
    return model, process, optimized(model, process, inducing=False)


@pytest.fixture(scope="module")
def classes():
    """Three of them, each with a covariance function of its own."""
    labels = np.digitize(COUNTS, [1, 3])
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5)
        process = pmgp.gp.Sparse(cov_func=[pm.gp.cov.Matern52(1, ls=scale * k) for k in (1.0, 2.0, 3.0)])
        f = process.prior("f", X=X, Xu=X[::3] + 0.1, n_outputs=3)
        process.observe("y", f, dist=pmgp.likelihoods.RobustMax.dist, observed=labels)
    return model, process


def gaussian_evidence(point):
    """Return the evidence of targets with Gaussian noise and a Matérn covariance."""
    distance = np.sqrt(5.0) * np.abs(X - X.T) / point["lengthscale"]
    K = point["variance"] * (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    return multivariate_normal(np.zeros(len(X)), K + point["noise"] ** 2 * np.eye(len(X))).logpdf(TARGETS)


def test_the_bound_never_falls(counts, targets):
    for *_, found in (counts, targets):
        assert (np.diff(found.bounds) >= 0.0).all()
        assert found.bounds[-1] > found.bounds[0] + 0.1
        assert found.converged


def test_inducing_inputs_move_to_the_data(counts):
    *_, found = counts
    assert found.Z.min() > -0.1
    assert found.Z.max() < 6.0
    assert np.ptp(found.Z) > 3.0
    assert found.Z.shape == (4, 1)


def test_the_bound_of_gaussian_targets_is_that_of_the_collapsed_approximation(targets):
    """Titsias' bound, which is the largest over all q."""
    _, process, found = targets
    with pm.Model() as collapsed:
        noise = pm.LogNormal("noise", -1.0, 0.5)
        marginal = pm.gp.MarginalApprox(approx="VFE", cov_func=hyperparameters())
        marginal.marginal_likelihood("y", X=X, Xu=found.Z, y=TARGETS, sigma=noise)
    assert np.array_equal(found.Z, process.inducing_inputs.data)
    log_evidence = collapsed.logp(vars=collapsed.potentials)
    logp = collapsed.compile_fn([log_evidence], inputs=collapsed.value_vars, mode="FAST_COMPILE")
    values = {f"{name}_log__": np.log(value) for name, value in found.point.items()}
    np.testing.assert_allclose(found.log_evidence, logp(values)[0], atol=1e-4)


def test_it_is_below_the_evidence_and_reaches_it_with_an_inducing_input_for_each_point(targets):
    *_, found = targets
    model, process = sparse_gaussian_process(X, 1e-9)
    whole = optimized(model, process, inducing=False)
    assert found.log_evidence < gaussian_evidence(found.point) - 1e-3
    np.testing.assert_allclose(whole.log_evidence, gaussian_evidence(whole.point), atol=1e-4)


def test_inducing_inputs_that_move_raise_the_bound(targets):
    _, _, fixed = targets
    model, process = sparse_gaussian_process(fixed.Z, JITTER)
    moved = optimized(model, process)
    assert moved.bounds[-1] > fixed.bounds[-1] + 0.01
    assert moved.log_evidence < gaussian_evidence(moved.point)


@pytest.mark.parametrize("of", ["counts", "classes"])
def test_the_gradient_is_the_bounds(of, request, rng):
    model, process, *_ = request.getfixturevalue(of)
    function = BoundFunction(process, model, model.initial_point())
    start = function.start()
    coordinates = VariationalCoordinates(start, theta=True, inducing=True, units=np.array([2.0]))
    vector = coordinates.start + 0.05 * rng.standard_normal(coordinates.start.size)

    def value(x):
        return bound(function, coordinates.at(x)).value

    slopes = coordinates.gradient(bound(function, coordinates.at(vector)).gradient)
    np.testing.assert_allclose(slopes, central_differences(value, vector, 1e-3), rtol=1e-5, atol=1e-5)


def test_coordinates_stand_for_what_they_begin_with(rng):
    origin = Variational(*(rng.standard_normal(shape) for shape in [(2,), (3, 2), (2, 3), (2, 3, 3)]))
    coordinates = VariationalCoordinates(origin, theta=True, inducing=True, units=np.array([0.5, 3.0]))
    for part, same in zip(coordinates.at(coordinates.start), origin, strict=True):
        np.testing.assert_allclose(part, same)
    fixed = VariationalCoordinates(origin, theta=False, inducing=False, units=np.ones(2))
    moved = fixed.at(fixed.start + 1.0)
    assert moved.theta is origin.theta
    assert moved.inducing is origin.inducing
    assert not np.allclose(moved.mean, origin.mean)


def test_the_start_is_draws_of_q_and_the_maximum(counts):
    *_, found = counts
    starts = found.initvals(4000, random_seed=3)
    v = np.array([start["f_rotated_"] for start in starts])
    covariance = found.factor[0] @ found.factor[0].T
    error = np.sqrt(covariance.diagonal() / len(v))
    assert (np.abs(v.mean(axis=0) - found.mean[0]) < 4.0 * error).all()
    np.testing.assert_allclose(np.cov(v.T), covariance, atol=8.0 * np.square(error).max() * np.sqrt(len(v)))
    assert {name: float(value) for name, value in found.point.items()} == {
        name: float(starts[-1][name]) for name in ("variance", "lengthscale")
    }
    assert found.initvals(2, random_seed=3)[1]["f_rotated_"].shape == (4,)


def test_a_model_whose_inducing_inputs_are_data_takes_them_and_the_start():
    with pm.Model():
        Z = pm.Data("Z", X[:4])
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        f = process.prior("f", X=X, Xu=Z)
        process.observe("y", f, dist=lambda f: pm.Poisson.dist(mu=pm.math.exp(f)), observed=COUNTS)
        found = pmgp.gp.optimize_inducing(process, **QUIET)
        pm.set_data({"Z": found.Z})
        again = pmgp.gp.optimize_inducing(process, inducing=False, start=found.point, **QUIET)
        step = pmgp.steps.SparseGibbs()
        starts = found.initvals(chains=1, random_seed=1)
        settings = {"draws": 5, "tune": 5, "chains": 1, "cores": 1, "random_seed": 1, **QUIET}
        idata = pm.sample(step=step, initvals=starts, compute_convergence_checks=False, **settings)
    np.testing.assert_allclose(again.bounds[-1], found.bounds[-1], atol=1e-3)
    assert idata["posterior"].sizes["draw"] == 5


def test_several_outputs_have_a_gaussian_each(classes):
    found = optimized(*classes, max_iterations=5)
    assert found.mean.shape == (3, 4)
    assert found.factor.shape == (3, 4, 4)
    assert found.initvals(1)[0]["f_rotated_"].shape == (3, 4)
    assert (np.diff(found.bounds) >= 0.0).all()


def test_a_gradient_needs_memory_for_a_few_n_by_m_matrices(rng):
    n, m = 3000, 30
    inputs = rng.standard_normal((n, 2))
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("lengthscale", 0.0, 0.5)))
        f = process.prior("f", X=inputs, Xu=inputs[:m])
        process.observe("y", f, dist=lambda f: pm.Poisson.dist(mu=pm.math.exp(f)), observed=rng.poisson(1.0, n))
    function = BoundFunction(process, model, model.initial_point())
    start = function.start()
    function(start)
    tracemalloc.start()
    function(start)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 25 * 8 * n * m


def test_progress_is_shown(capsys):
    model, process = sparse_gaussian_process(X[::3], JITTER)
    optimized(model, process, max_iterations=3, progressbar=True)
    assert "Optimizing q, theta and Z: bound" in capsys.readouterr().out


def test_hyperparameters_need_not_be_there():
    """Conditionals at new inputs are none."""
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=pm.gp.cov.Matern52(1, ls=1.0))
        f = process.prior("f", X=X, Xu=X[:3])
        process.observe("y", f, 0.5, dist=gaussian, observed=TARGETS)
        process.conditional("new", X + 0.1)
    found = optimized(model, process)
    assert not found.point
    assert found.log_prior == 0.0
    assert found.bounds[-1] > found.bounds[0]


def test_what_is_refused(counts):
    model, process, found = counts
    with pytest.raises(ValueError, match="max_iterations must be 1 or more, not 0"):
        optimized(model, process, max_iterations=0)
    with pytest.raises(ValueError, match=r"variance = -1.0 does not lie inside the support"):
        optimized(model, process, start={"variance": -1.0})
    with pytest.raises(ValueError, match="chains must be 1 or more, not 0"):
        found.initvals(0)


def test_observations_at_other_inputs_are_refused():
    with pm.Model() as model:
        process = pmgp.gp.Sparse(cov_func=hyperparameters())
        process.prior("f", X=X, Xu=X[:3])
        with pytest.raises(RuntimeError, match="call observe first"):
            pmgp.gp.optimize_inducing(process, **QUIET)
        process.observe("y", process.marginals(X + 1.0), 0.5, dist=gaussian, observed=TARGETS)
    with pytest.raises(pmgp.ModelError, match="'y' was observed at other inputs"):
        optimized(model, process)


def beyond_a_limit(at):
    """200 t + 2 log(1 - t), which is no number from t = 1 on, and a square of the mean."""
    value = np.sum(200.0 * at.theta + 2.0 * np.log1p(-at.theta)) - 25.0 * np.sum(np.square(at.mean - 3.0))
    slopes = 200.0 - 2.0 / (1.0 - at.theta), np.zeros_like(at.inducing), -50.0 * (at.mean - 3.0)
    return ExpectedLogDensity(float(value), Variational(*slopes, np.zeros_like(at.factor)))


def test_a_place_without_a_bound_is_turned_back_from():
    """The maximum is close to it: t = .99, and 150 / 51 for the mean."""
    start = Variational(np.array([-3.0, -1.0]), np.zeros((2, 1)), np.zeros((1, 2)), np.eye(2)[None])
    settings = {"theta": True, "inducing": False, "units": np.ones(1), "iterations": 100}
    found = maximized(beyond_a_limit, start, report=lambda bound: None, **settings)
    assert found.converged
    np.testing.assert_allclose(found.at.theta, 0.99, atol=1e-4)
    np.testing.assert_allclose(found.at.mean, 150.0 / 51.0, rtol=1e-4)
    assert (np.diff(found.bounds) >= 0.0).all()


def test_where_it_cannot_go_on_it_has_not_converged():
    """The bound rises up to where there is none."""

    def rising(at):
        value = at.theta[0] if at.theta[0] < 1.0 else -np.inf
        zeros = (np.zeros_like(part) for part in at[1:])
        return ExpectedLogDensity(value, Variational(np.ones(1), *zeros))

    start = Variational(np.zeros(1), np.zeros((2, 1)), np.zeros((1, 2)), np.eye(2)[None])
    settings = {"theta": True, "inducing": False, "units": np.ones(1), "iterations": 100}
    found = maximized(rising, start, report=lambda bound: None, **settings)
    assert not found.converged
    assert "the bound is not defined" in found.message
    assert 0.9 < found.at.theta[0] < 1.0
