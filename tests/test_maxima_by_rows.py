"""Maxima given many observations, followed from those given some of them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

from pmgp.core.importance import curvature, peak, student_at
from pmgp.interface.importance import proposals, rows, targets
from pmgp.interface.importance.rows import Rows
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.model.latent_gaussian import ModelError

N, FEW, SEARCHED = 200, 25, 100
RNG = np.random.default_rng


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """As many observations as the tests have are taken for many."""
    monkeypatch.setattr(rows, "FEW", FEW)
    monkeypatch.setattr(proposals, "MANY", 4 * FEW)
    monkeypatch.setattr(rows, "SEARCHED", SEARCHED)


def noisy(scale=1.0):
    return scale * RNG(2).standard_normal(N)


class Squares:
    """Observations of the square of theta: two maxima, of which the prior makes the negative one lower."""

    size, by_numpy = N, True

    def __init__(self):
        self.y, self.gradients, self.probed = 1.5 + noisy(), {}, set()

    def log_prior(self, theta):
        """Return the log-density of a normal distribution, and its gradient."""
        return -0.5 * float((theta - 0.2) @ (theta - 0.2)), 0.2 - theta

    def given(self, chosen, probed=False):
        """Return the posterior given some observations, whose evaluations are counted by their number."""
        self.probed |= {len(chosen)} if probed else set()

        def density(theta):
            self.gradients[len(chosen)] = self.gradients.get(len(chosen), 0) + 1
            residuals, (value, gradient) = self.y[chosen] - theta**2, self.log_prior(theta)
            return value - 0.5 * residuals @ residuals, gradient + 2.0 * theta * residuals.sum()

        return density

    @property
    def density(self):
        """The posterior given all observations."""
        return self.given(np.arange(N))

    climbed = density

    def value(self, theta):
        """Return the log-density alone."""
        residuals = self.y - theta**2
        return self.log_prior(theta)[0] - 0.5 * residuals @ residuals


def maxima_of(target, climbs=8, theta=1.0, climbing=True):
    found = Rows(target.given, target.log_prior, target, RNG(1))
    return found.maxima(np.array([theta]), climbing, climbs, progressbar=False)


def test_each_number_of_observations_is_half_of_the_next():
    assert rows.sizes(N) == [100, N]
    assert rows.sizes(2 * N + 1) == [100, N, 2 * N + 1]
    assert rows.sizes(SEARCHED) == [SEARCHED]


def test_both_signs_of_a_root_are_followed_to_all_observations(monkeypatch):
    """Climbs to maxima given few observations begin at minus theta, so that they end at the other sign."""
    monkeypatch.setattr(rows, "peak", lambda density, theta: peak(density, -theta))
    target = Squares()
    found = maxima_of(target)
    assert len(found) == 2
    for one in found:
        at = peak(target.density, one.student.center).theta
        expected = student_at(at, curvature(target.density, at))
        assert abs(one.student.center - at)[0] < 0.1 * expected.axes[0, 0]
        assert_allclose(one.student.axes, expected.axes, rtol=0.1)
        assert_allclose(one.value, target.value(at), atol=0.01)


def test_other_libraries_than_numpy_have_matrices_for_all_observations_only(monkeypatch):
    monkeypatch.setattr(rows, "SEARCHED", 60)
    halves, alone = Squares(), Squares()
    alone.by_numpy = False
    maxima_of(halves, 0), maxima_of(alone, 0)
    assert [list(target.gradients) for target in (halves, alone)] == [[FEW, 50, 100, N], [FEW, 50, N]]


def test_gradients_are_estimated_but_for_few_observations():
    """The maxima given few of them are found by L-BFGS, whose line searches need exact gradients."""
    target = Squares()
    maxima_of(target)
    assert target.probed == {SEARCHED}
    assert set(target.gradients) == {FEW, SEARCHED, N}


def test_climbs_begin_with_the_curvature_in_proportion_to_the_number_of_observations():
    target = Squares()
    start = Rows(target.given, target.log_prior, target, RNG(1))._scaled(np.ones(1), np.eye(1) * 7, 3)
    assert_allclose(start.inverse, 1.0 / (1.0 + 3.0 * 6.0), rtol=1e-6)


def test_a_start_stays_where_it_is():
    [positive], [negative] = (maxima_of(Squares(), 0, theta, climbing=False) for theta in (1.0, -1.0))
    assert positive.student.center > 1.0 > -1.0 > negative.student.center


def test_climbs_to_other_maxima_begin_at_those_of_few_observations():
    """At each start the density of its own observations is level, and not that of others."""
    target, numbers = Squares(), []
    found = Rows(lambda chosen: (numbers.append(chosen), target.given(chosen))[1], target.log_prior, target, RNG(1))
    starts = list(found._others(student_at(np.ones(1), np.eye(1)), 4))
    slopes = np.array([[abs(target.given(chosen)(start.theta)[1][0]) for chosen in numbers] for start in starts])
    assert [len(chosen) for chosen in numbers] == [FEW] * 4
    assert slopes.diagonal().max() < 0.01 < slopes[~np.eye(4, dtype=bool)].min()


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (N, 2))
    with pm.Model() as model:
        cov = pm.gp.cov.Matern52(2, ls=pm.LogNormal("lengthscale", 0.0, 1.0, shape=2))
        y = np.sin(2.0 * X[:, 0]) + noisy(0.3)
        pm.gp.Marginal(cov_func=cov).marginal_likelihood("y", X, y, sigma=pm.LogNormal("noise", -1.0, 1.0))
    return model, MarginalTarget(model, model["y"])


@pytest.fixture(scope="module")
def expected(regression):
    density = regression[1].density
    at = peak(density, np.zeros(3)).theta
    return student_at(at, curvature(density, at))


def component(regression, monkeypatch):
    """Return the only component of the proposal, and how many gradients given all observations it took."""
    (model, target), thetas = regression, []
    for name in ("density", "climbed"):
        density = getattr(target, name)
        monkeypatch.setattr(target, name, lambda theta, density=density: (thetas.append(theta), density(theta))[1])
    [found] = proposals.proposal_at_maxima(model, target, None, RNG(1), 0, None, False).components
    return found, len(thetas)


def deviations_apart(found, expected):
    return np.abs(np.linalg.solve(expected.axes, found.center - expected.center)).max()


def test_few_gradients_are_given_all_observations(regression, expected, monkeypatch):
    found, gradients = component(regression, monkeypatch)
    # Differences for the curvature would take three more.
    assert gradients <= 4
    assert deviations_apart(found, expected) < 0.2
    ratio = np.linalg.solve(expected.axes, found.axes)
    assert_allclose(np.linalg.svd(ratio, compute_uv=False), 1.0, atol=0.4)


def test_estimated_gradients_lead_to_the_maximum(regression, expected, monkeypatch):
    """They put it off by a tenth of a deviation in each direction."""
    monkeypatch.setattr(targets, "MANY", 4 * FEW)
    model = regression[0]
    target = MarginalTarget(model, model["y"])
    monkeypatch.setattr(target, "density", None)
    [found] = proposals.proposal_at_maxima(model, target, None, RNG(1), 0, None, False).components
    assert 1e-3 < deviations_apart(found, expected) < 0.6


@pytest.mark.parametrize(
    ("where", "error"), [((proposals, "IterativeDensity"), ModelError), ((Rows, "maxima"), ValueError)]
)
def test_where_some_observations_lead_nowhere_the_climb_is_given_all(regression, expected, monkeypatch, where, error):
    def refused(*given, **named):
        raise error("no")

    monkeypatch.setattr(*where, refused)
    found, gradients = component(regression, monkeypatch)
    assert gradients > 10
    assert deviations_apart(found, expected) < 0.05
