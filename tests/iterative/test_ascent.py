"""Climbs along gradients alone, and the maxima that find_map finds with them, beside those of a factorization."""

from __future__ import annotations

import re

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import rosen_der

import pmgp
from pmgp.core.iterative.ascent import Climbed, climb
from pmgp.core.iterative.solvers import NotConvergedError
from pmgp.interface.climbing import Climbing, _left_by_gradients
from pmgp.interface.observed_maximum import _ended

RNG = np.random.default_rng(0)
N = 200
X = RNG.uniform(-2.0, 2.0, (N, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(N)


def test_a_quadratic_takes_one_step_given_its_curvature():
    inverse = np.array([[2.0, 0.3], [0.3, 0.1]])
    found = climb(lambda theta: -np.linalg.solve(inverse, theta), np.array([0.4, -0.2]), inverse, 1e-6, 10)
    assert_allclose(found.theta, 0.0, atol=1e-12)
    assert (found.evaluations, found.distance < 1e-6) == (2, True)


def test_a_curved_ridge_is_climbed():
    found = climb(lambda theta: -rosen_der(theta), np.array([-1.2, 1.0]), np.eye(2), 1e-6, 200)
    assert_allclose(found.theta, 1.0, atol=1e-5)


def test_steps_to_where_there_is_no_gradient_are_shortened():
    def gradient(theta):
        return None if theta[0] > 1.2 else 10.0 * (1.0 - theta)

    found = climb(gradient, np.array([0.5]), np.array([[5.0]]), 1e-6, 50)
    assert_allclose(found.theta, 1.0, atol=1e-6)
    with pytest.raises(ValueError, match="no gradient at the start"):
        climb(gradient, np.array([1.5]), np.eye(1), 1e-6, 50)


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 1.0, shape=2)
        gp = pm.gp.Marginal(cov_func=pm.LogNormal("variance", 0.0, 1.0) * pm.gp.cov.Matern52(2, ls=lengthscale))
        gp.marginal_likelihood("y", X, Y, sigma=pm.LogNormal("noise", -1.0, 1.0))
    return model


@pytest.fixture(scope="module")
def exact(model):
    return pmgp.find_map(model, solver="cholesky")


def log_point(found):
    return np.log(np.concatenate([np.ravel(found.point[name]) for name in ("lengthscale", "variance", "noise")]))


def test_a_factorization_finds_the_maximum(model, exact):
    assert exact.converged
    assert exact.approximation is None
    # PyMC's density of the hyper-parameters on their own scale, without the Jacobian.
    density = model.compile_logp(jacobian=False, mode="FAST_COMPILE")

    def at(theta):
        values = {"lengthscale_log__": theta[:2], "variance_log__": theta[2], "noise_log__": theta[3]}
        return float(density(values))

    theta = log_point(exact)
    assert exact.log_evidence + exact.log_prior == pytest.approx(at(theta), abs=1e-4)
    assert all(at(theta + shift) < at(theta) for step in np.eye(4) for shift in (0.1 * step, -0.1 * step))


def test_estimated_gradients_find_the_same_maximum(model, exact, capsys):
    solver = pmgp.marginal.Iterative(rank=60, tolerance=1e-3)
    found = pmgp.find_map(model, solver=solver, progressbar=True)
    # The posterior deviations of the elements are .1 to .4.
    assert found.converged
    assert_allclose(log_point(found), log_point(exact), atol=0.05)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=0.05)
    assert "gradients by conjugate gradients, whose noise moves the maximum by about 0.0" in found.message
    assert re.search(
        r"Maximum: gradient \d+, [\d.e-]+ deviations left; residual [\d.e-]+ \(to 0.001\)", capsys.readouterr().out
    )


class Quadratic:
    """Exact gradients and log-evidences of a density whose maximum, at zero, has the log-evidence -7."""

    def log_prior(self, theta):
        return float(theta[0])

    def fresh(self, seed, theta):
        return -theta, -7.0 - 0.5 * theta @ theta - self.log_prior(theta)


def test_the_evidence_is_that_of_the_point_after_the_last_step():
    found = _ended(Quadratic(), Climbed(np.array([0.4, -0.3]), np.zeros(2), np.eye(2), 0.0, 3))
    assert_allclose(found.theta, 0.0, atol=1e-12)
    assert_allclose(found.log_evidence, -7.0, rtol=1e-12)


@pytest.mark.parametrize(("noise", "taken"), [(0.1, 4), (0.7, 7), (5.0, 12)])
def test_noisy_gradients_are_repeated(noise, taken):
    class Noisy(Quadratic):
        def fresh(self, seed, theta):
            gradient, value = super().fresh(seed, theta)
            return gradient + (-1.0) ** seed * noise, value

    found = _ended(Noisy(), Climbed(np.array([0.4, -0.3]), np.zeros(2), np.eye(2), 0.0, 3))
    assert found.message.startswith(f"{3 + taken} gradients")


def test_an_interruption_keeps_the_best_point(model, exact, monkeypatch):
    uninterrupted = Climbing.fresh

    def fresh(self, *arguments):
        if self.made == 3:
            raise KeyboardInterrupt
        return uninterrupted(self, *arguments)

    monkeypatch.setattr(Climbing, "fresh", fresh)
    start, solver = {"noise": 2.0}, pmgp.marginal.Iterative(rank=60)
    found = pmgp.find_map(model, start=start, solver=solver)
    assert not found.converged
    assert found.message.startswith("3 gradients and an interruption")
    assert found.point["noise"] < 2.0
    monkeypatch.undo()
    continued = pmgp.find_map(model, start=found.point, solver=solver)
    assert_allclose(log_point(continued), log_point(exact), atol=0.05)


def test_elements_of_the_covariance_take_what_gradients_leave():
    taken = 1e9 - _left_by_gradients(pmgp.marginal.Iterative(memory=1e9), 200)
    assert _left_by_gradients(pmgp.marginal.Iterative(memory=1.01 * taken), 200) == pytest.approx(0.01 * taken)
    with pytest.raises(MemoryError, match="gradients for 200 points take"):
        _left_by_gradients(pmgp.marginal.Iterative(memory=0.99 * taken), 200)


def test_the_maximum_is_a_trace_for_predictions(model, exact):
    found = pmgp.predict(exact.trace, X[:3], model=model, progressbar=False)
    assert np.abs(found["mean"] - np.sin(2.0 * X[:3, 0])).max() < 0.5


def test_what_cannot_serve_is_refused(model):
    with pytest.raises(NotConvergedError, match="after 1 iterations the residual"):
        pmgp.find_map(model, start={"noise": 0.01}, solver=pmgp.marginal.Iterative(cap=1, rank=2))
    with pytest.raises(MemoryError, match=r"gradients for 200 points take .* and memory= allows 0.001"):
        pmgp.find_map(model, solver=pmgp.marginal.Iterative(memory=1e3))
    with pytest.raises(ValueError, match="solver='lu': choose one of auto, cholesky, iterative"):
        pmgp.find_map(model, solver="lu")
    with pytest.raises(ValueError, match="is for multivariate normal observations; this model has latent values"):
        pmgp.find_map(pmgp.models.classifier(X, Y > 0.0), solver="iterative")
