"""Hyper-parameters measured in millions or millionths: what moves them begins with steps of the right size."""

from __future__ import annotations

from functools import cache
from typing import ClassVar

import arviz as az
import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import pmgp
from pmgp.core.adaptation.units import units, width
from pmgp.core.marginal.given_elements import GivenElements
from pmgp.interface import maximum, observed_maximum
from pmgp.interface.climbing import scale_given_rows
from pmgp.interface.importance import targets
from pmgp.interface.importance.sampling import target_of
from pmgp.interface.importance.targets import in_units
from pmgp.interface.iterative_evidence import IterativeDensity
from pmgp.interface.steps import pseudo_marginal
from tests.finite_differences import central_differences
from tests.steps.test_contract import FAST

N = 20
X = np.linspace(0.0, 3.0, N)[:, None]
Y = 1.5 + np.sin(2.0 * X[:, 0]) + 0.3 * np.random.default_rng(0).normal(size=N)


def ones(log_prior, log_density, theta):
    return np.ones(len(theta))


@cache
def model(unit: float) -> pm.Model:
    """A mean and normal noise of data in some unit, of which only the mean has the width on the unconstrained scale."""
    with pm.Model() as made:
        noise = pm.LogNormal("noise", np.log(0.3 * unit), 0.5)
        level = pm.Normal("level", 0.0, 3.0 * unit)
        covariance = unit**2 * pm.gp.cov.Matern32(1, ls=1.0)
        gp = pm.gp.Latent(mean_func=pm.gp.mean.Constant(level), cov_func=covariance)
        f = gp.prior("f", X=X, reparameterize=False, jitter=1e-8 * unit**2)
        pm.Normal("y", f, noise, observed=unit * Y)
    return made


@cache
def normal_observations(unit: float) -> pm.Model:
    with pm.Model() as made:
        level, noise = pm.Normal("level", 0.0, 3.0 * unit), pm.LogNormal("noise", np.log(0.3 * unit), 0.5)
        covariance = unit**2 * pm.gp.cov.Matern32(1, ls=1.0)
        gp = pm.gp.Marginal(mean_func=pm.gp.mean.Constant(level), cov_func=covariance)
        gp.marginal_likelihood("y", X, unit * Y, sigma=noise, jitter=0.0)
    return made


@pytest.mark.filterwarnings("error")
def test_a_density_that_overflows_far_out_ends_the_search_without_a_warning():
    """A step of 1,024 is long, since the exponential is infinite there; its logarithm would be -1."""
    assert width(lambda theta: -1e-3 * np.log1p(np.exp(np.abs(theta[0]))), np.zeros(1), 0) == 4.0**5


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 0.1, 1.0, 30.0, 1e6, 1e12])
def test_the_width_of_a_normal_density_is_its_deviation(scale):
    found = width(lambda theta: -0.5 * np.square((theta[1] - 2.0 * scale) / scale), np.zeros(2), 1)
    assert 0.5 < found / scale < 5.0


def test_densities_that_are_flat_or_zero_give_no_unit():
    flat, sloping, zero = (lambda theta: 0.0), (lambda theta: theta[0]), (lambda theta: -np.inf)
    assert width(flat, np.zeros(1), 0) == width(sloping, np.zeros(1), 0) == np.inf
    assert width(zero, np.zeros(1), 0) == 1.0
    assert units(flat, flat, np.zeros(2)).tolist() == units(flat, zero, np.zeros(2)).tolist() == [1.0, 1.0]
    # An improper prior, and data that say something.
    assert units(flat, lambda theta: -0.5 * np.square(theta[0] / 1e6), np.zeros(2))[0] > 1e5


def test_units_are_those_of_the_posterior_where_the_prior_is_unusual():
    """The first element is usual; the posterior of the second one is wide, and that of the third one is not."""
    seen = []

    def log_density(theta):
        seen.append(theta)
        return -0.5 * (np.square(theta / [50.0, 1e4, 1.0])).sum()

    found = units(lambda theta: -0.5 * (np.square(theta / [1.0, 1e6, 1e6])).sum(), log_density, np.zeros(3))
    assert found[0] == found[2] == 1.0
    assert 5e3 < found[1] < 5e4
    assert np.log2(found[1]) % 1.0 == 0.0
    assert not any(theta[0] for theta in seen)


class Parts:
    """A model whose log-prior and covariance are squares of theta."""

    likelihood_elements: ClassVar = (1,)

    def log_prior(self, theta):
        return -0.5 * float(np.square(theta).sum())

    def log_prior_gradient(self, theta):
        return -theta

    def covariance_pullback(self, theta, covariance_bar, mean_bar):
        return 2.0 * theta * covariance_bar


def test_gradients_are_in_units():
    given = GivenElements(Parts(), np.array([2, 1]), np.array([5.0, 6.0, 7.0]))
    given.units = np.array([4.0, 0.25])
    part = given.part(given.theta)
    assert_array_equal(given.whole(part), given.theta)
    assert_array_equal(given.whole(part + np.array([1.0, 0.0])), [5.0, 6.0, 11.0])
    assert_allclose(given.log_prior_gradient(part), central_differences(given.log_prior, part, 1e-4), rtol=1e-8)
    assert_allclose(given.covariance_pullback(part, 1.0, 0.0), -2.0 * given.log_prior_gradient(part))


@pytest.mark.parametrize("made", [model, normal_observations])
def test_a_target_in_units_is_the_target(made):
    """Its density is that of theta in units, whose volume belongs to it."""
    target = target_of(made(1e6), "importance", "ep", None, FAST)
    found = in_units(target)
    assert found.units.max() > 1e5
    theta = target.initial + 0.1 * found.units
    there, volume = theta / found.units, np.log(found.units).sum()
    for name in ("log_prior", "value"):
        assert getattr(found, name)(there) == pytest.approx(getattr(target, name)(theta) + volume, abs=1e-9)
    for name in ("density", "climbed"):
        value, gradient = getattr(found, name)(there)
        assert value == pytest.approx(getattr(target, name)(theta)[0] + volume, abs=1e-9)
        assert_allclose(gradient, central_differences(found.value, there, 1e-4), rtol=1e-4, atol=1e-4)
    one, other = (at.weighed(np.random.default_rng(1), x) for at, x in ((found, there), (target, theta)))
    assert one.log_joint == pytest.approx(other.log_joint + volume, abs=1e-9)
    point = target.unravel(theta, other.f)
    assert_allclose(found.ravel(point), there)
    assert all(np.array_equal(point[name], value) for name, value in found.unravel(there, one.f).items())


def test_a_stored_state_keeps_its_units():
    """The units of another initial point are not those in which the state is measured."""
    one = pmgp.PseudoMarginal(model=model(1e6), compile_kwargs=FAST)
    other = pmgp.PseudoMarginal(model=model(1e6), compile_kwargs=FAST)
    assert one.units.max() > 1e5
    other.units = np.ones(2)
    other.sampling_state = one.sampling_state
    assert_array_equal(other.units, one.units)
    theta = one._moving.part(one.latent_model.initial_theta)
    assert other._evaluate(theta, None).log_screen == one._evaluate(theta, None).log_screen


@pytest.mark.parametrize(("unit", "right"), [(1e-5, True), (1e6, True), (1e6, False)])
def test_chains_move_means_in_any_unit(unit, right, monkeypatch):
    if not right:
        monkeypatch.setattr(pseudo_marginal, "units", ones)
    with model(unit):
        step = pmgp.PseudoMarginal(compile_kwargs=FAST)
        quiet = {"progressbar": False, "quiet": True, "compute_convergence_checks": False}
        idata = pm.sample(250, tune=250, chains=2, cores=1, step=step, random_seed=1, **quiet)
    levels = idata["posterior"].dataset[["level"]]
    assert (float(az.ess(levels)["level"]) > 100.0) == right
    if right:
        mean, deviation = moments_by_sums(np.linspace(-6.0, 6.0, 401))
        error = float(az.mcse(levels)["level"]) / unit
        assert abs(float(levels["level"].mean()) / unit - mean) < 4.0 * error
        assert float(levels["level"].std()) / unit == pytest.approx(deviation, rel=0.25)


def moments_by_sums(levels: np.ndarray) -> tuple[float, float]:
    """Return mean and deviation of the level's posterior, in units of the data, by sums over a grid with the noise."""
    r = np.sqrt(3.0) * np.abs(X - X.T)
    K = (1.0 + r) * np.exp(-r)
    logs = np.empty((len(levels), 81))
    for j, t in enumerate(np.linspace(-2.0, 2.0, 81)):
        factor = np.linalg.cholesky(K + np.square(0.3 * np.exp(t)) * np.eye(N))
        z = np.linalg.solve(factor, Y[:, None] - levels)
        logs[:, j] = -0.5 * np.square(z).sum(axis=0) - np.log(factor.diagonal()).sum() - 0.5 * np.square(t / 0.5)
    logs -= 0.5 * np.square(levels / 3.0)[:, None]
    weights = np.exp(logs - logs.max()).sum(axis=1)
    weights /= weights.sum()
    mean = float(levels @ weights)
    return mean, float(np.sqrt(np.square(levels - mean) @ weights))


@pytest.mark.parametrize(("unit", "right"), [(1e-5, True), (1e6, True), (1e6, False)])
@pytest.mark.parametrize("made", [model, normal_observations])
def test_searches_find_the_same_maximum(made, unit, right, monkeypatch):
    if not right:
        monkeypatch.setattr(maximum, "units", ones)
        monkeypatch.setattr(observed_maximum, "units", ones)
    usual, found = (pmgp.find_map(model=made(one), progressbar=False, compile_kwargs=FAST) for one in (1.0, unit))
    assert (abs(found.point["level"] / unit - usual.point["level"]) < 0.01) == right
    if right:
        assert found.point["noise"] / unit == pytest.approx(float(usual.point["noise"]), rel=0.01)


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_the_scale_given_some_of_the_rows_is_in_units_too(unit):
    density = IterativeDensity(normal_observations(unit), compile_kwargs=FAST)
    at, scale = scale_given_rows(density, np.arange(N))
    mean, deviation = moments_by_sums(np.linspace(-6.0, 6.0, 401))
    place = density.theta.names.index("level")
    assert at[place] / unit == pytest.approx(mean, abs=0.2)
    assert np.sqrt(scale[place, place]) / unit == pytest.approx(deviation, rel=0.3)


@pytest.mark.parametrize(("unit", "right"), [(1e6, True), (1e6, False)])
def test_importance_sampling_finds_them_too(unit, right, monkeypatch):
    if not right:
        monkeypatch.setattr(targets, "units", ones)
    usual, found = (
        pmgp.importance(model=model(one), draws=200, random_seed=1, progressbar=False, compile_kwargs=FAST)
        for one in (1.0, unit)
    )
    assert bool(found.attrs["trusted"]) == right
    if right:
        assert found.attrs["log_evidence"] + N * np.log(unit) == pytest.approx(usual.attrs["log_evidence"], abs=0.05)
        levels = found["importance"]["theta"].to_numpy()[:, 1] / unit
        weights = np.exp(found["importance"]["log_weight"].to_numpy() - found.attrs["log_evidence"])
        mean, deviation = moments_by_sums(np.linspace(-6.0, 6.0, 401))
        assert abs(np.average(levels, weights=weights) - mean) < 0.4 * deviation
        assert float(found["posterior"]["level"].std()) / unit == pytest.approx(deviation, rel=0.3)
