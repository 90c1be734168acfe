"""Stochastic gradient Langevin dynamics as a step method: its posterior, PyMC's contract, and its words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pmgp
from pmgp.core.iterative.ulisse import Ulisse
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.langevin import StochasticGradientLangevin, scale_of
from pmgp.interface.model.observed_normal import gaussian_observations

RNG = np.random.default_rng(0)
N = 60
X = np.sort(RNG.uniform(0.0, 6.0, N))[:, None]
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(N)


def regression(rows: Any = slice(None)) -> pm.Model:
    with pm.Model() as model:
        lengthscale = pm.LogNormal("lengthscale", 0.0, 0.5)
        noise = pm.LogNormal("noise", -1.0, 0.5)
        gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=lengthscale))
        gp.marginal_likelihood("y", X[rows], Y[rows], sigma=noise)
    return model


MODEL = regression()
THETA = np.array([0.3, -1.2])


@pytest.fixture(scope="module")
def density():
    return IterativeDensity(MODEL, rank=20)


@pytest.fixture(scope="module")
def target():
    return MarginalTarget(MODEL, gaussian_observations(MODEL))


@pytest.mark.parametrize(("points", "backend"), [(N, pmgp.marginal.NumpyTiles()), (25, pmgp.marginal.JaxTiles())])
def test_a_subset_has_the_posterior_of_its_points(points, backend):
    chosen = RNG.permutation(N)[:points]
    value, gradient = IterativeDensity(MODEL, backend=backend).of_rows(chosen)(THETA)
    model = regression(chosen)
    expected, slope = MarginalTarget(model, gaussian_observations(model)).density(THETA)
    assert_allclose(value, expected, rtol=1e-9)
    assert_allclose(gradient, slope, rtol=1e-6)


def test_stochastic_gradients_are_unbiased(density, target):
    rng, method = np.random.default_rng(1), Ulisse(4)
    found = np.array([density.stochastic_gradient(rng, THETA, method) for _ in range(200)])
    errors = found.std(axis=0, ddof=1) / np.sqrt(200)
    assert np.all(np.abs(found.mean(axis=0) - target.density(THETA)[1]) < 3.0 * errors)


def test_observations_are_read_again():
    def build(rows):
        with pm.Model() as model:
            X_data, y_data = pm.Data("X", X), pm.Data("y_data", Y)
            gp = pm.gp.Marginal(cov_func=pm.gp.cov.ExpQuad(1, ls=pm.LogNormal("lengthscale", 0.0, 0.5)))
            gp.marginal_likelihood("y", X_data, y_data, sigma=0.3)
            density = IterativeDensity(model)
            pm.set_data({"X": X[:rows], "y_data": Y[:rows] + 2.0})
            fresh = IterativeDensity(model)
        return density, fresh

    density, fresh = build(40)
    density.refresh_data()
    assert (density.size, density.rank) == (40, fresh.rank)
    theta = np.array([0.3])
    values = [one.estimate(np.random.default_rng(1), theta).log_evidence for one in (density, fresh)]
    assert values[0] == values[1]


def test_a_scale_from_no_points_is_refused():
    with pytest.raises(ValueError, match="subset=0: give the number of points"):
        StochasticGradientLangevin(model=MODEL, force=True, subset=0)


def test_few_points_are_refused():
    with pytest.raises(ValueError, match=r"exact methods are affordable for 60 points: use pmgp\.importance"):
        StochasticGradientLangevin(model=MODEL)


def test_some_variables_are_refused():
    with pytest.raises(ValueError, match="moves all variables together; give it noise_log__ too"):
        StochasticGradientLangevin([MODEL["lengthscale"]], force=True, model=MODEL)


def test_latent_values_are_refused():
    with pytest.raises(pmgp.ModelError, match="has latent"):
        StochasticGradientLangevin(model=pmgp.models.classifier(X, Y > 0.0), force=True)


@pytest.fixture(scope="module")
def step():
    return StochasticGradientLangevin(force=True, rank=20, subset=N, first=0.4, last=0.1, horizon=100, model=MODEL)


def test_it_says_that_it_is_not_exact(step):
    step.setup_chain(np.random.default_rng(1), 1, 1)
    _, [stats] = step.step(MODEL.initial_point())
    assert stats["exact"] is False
    assert stats["step_size"] == pytest.approx(0.4)
    assert not stats["held"]


def test_the_state_reproduces_the_next_draw(step):
    step.setup_chain(np.random.default_rng(1), 1, 1)
    point, _ = step.step(MODEL.initial_point())
    state = step.sampling_state
    after, _ = step.step(point)
    step.sampling_state = state
    again, _ = step.step(point)
    for name, value in after.items():
        assert_array_equal(value, again[name])


def test_it_survives_pickling(step):
    step.setup_chain(np.random.default_rng(1), 1, 1)
    copy = pickle.loads(pickle.dumps(step))
    point = MODEL.initial_point()
    assert step.step(point)[0].keys() == copy.step(point)[0].keys()
    assert_allclose(step._factor, copy._factor)


def test_the_posterior_is_near_that_by_importance_sampling():
    """Means within four standard errors, and deviations within a fifth, with steps of .45 in the posterior's scale.

    In that scale the chain is an autoregression with the coefficient 1 - .225: 1,600 draws are worth 200.
    """
    exact = pmgp.importance(MODEL, draws=400, random_seed=1, progressbar=False)["importance"]
    weights = np.exp(exact["log_weight"].values - exact["log_weight"].values.max())
    weights /= weights.sum()
    theta = exact["theta"].values
    mean = weights @ theta
    deviation = np.sqrt(weights @ np.square(theta - mean))
    step = StochasticGradientLangevin(force=True, rank=30, subset=N, first=0.45, last=0.44, probes=8, model=MODEL)
    step.setup_chain(np.random.default_rng(1), 100, 1600)
    point, draws = MODEL.initial_point(), []
    for _ in range(1700):
        point, _ = step.step(point)
        draws.append(step.density.theta.ravel(point))
    found = np.array(draws[100:])
    error = np.sqrt(1.0 / 200.0 + weights @ weights)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4.0 * error * deviation)
    assert np.all(np.abs(found.std(axis=0) / deviation - 1.0) < 0.2)
    assert_allclose(scale_of(step.density, N).shape, (2, 2))
