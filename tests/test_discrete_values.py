"""Discrete variables that decide which latent value an observation depends on."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_array_equal
from scipy.special import logsumexp
from scipy.stats import norm, poisson

import pmgp
from pmgp.interface.model import taking_apart
from pmgp.interface.model.discrete_values import MOST, discrete_values
from pmgp.interface.model.latent_gaussian import ModelError
from tests.confirmation import confirmed
from tests.steps.test_contract import FAST

COUNTS = np.array([0, 4, 1, 6])


def with_lag(initial: int) -> pm.Model:
    """Counts of a random walk, with an unknown lag between the two."""
    with pm.Model() as model:
        s = pm.LogNormal("s", 0.0, 0.7)
        lag = pm.DiscreteUniform("lag", 0, 1, initval=initial)
        f = pm.GaussianRandomWalk("f", sigma=s, init_dist=pm.Normal.dist(0.0, 1.0), steps=4)
        pm.Poisson("y", pt.exp(f[np.arange(4) + lag]), observed=COUNTS)
    return model


def settings_of(model: pm.Model) -> np.ndarray:
    values = [value for value in model.value_vars if value.dtype == "int64"]
    point = model.initial_point()
    return discrete_values(
        model, values, np.concatenate([np.ravel(point[value.name]) for value in values]).astype(float)
    )


@pytest.mark.parametrize("initial", [0, 1])
def test_terms_are_not_assigned_to_latent_values_that_a_lag_decides(initial, monkeypatch):
    assert not taking_apart.take_apart(with_lag(initial)).sites_known
    # At its initial value alone, the lag seems to be known.
    monkeypatch.setattr(taking_apart, "discrete_values", lambda *_: np.empty((0, 1)))
    assert taking_apart.take_apart(with_lag(initial)).sites_known


def test_terms_that_are_switched_off_at_first_have_their_latent_values():
    group = np.repeat(np.arange(3), 2)
    with pm.Model() as model:
        on = pm.Bernoulli("on", 0.01, initval=0)
        f = pm.MvNormal("f", np.zeros(3), cov=pm.LogNormal("s") * np.eye(3))
        pm.Poisson("y", pt.exp(on * f[group]), observed=np.arange(6))
    assert_array_equal(taking_apart.take_apart(model).terms.index, group)


def test_vectors_that_a_switch_reverses_are_refused():
    with pm.Model() as model:
        z, s = pm.Bernoulli("z", 0.3), pm.LogNormal("s")
        f, g = (pm.MvNormal(name, np.zeros(4), cov=s * np.eye(4)) for name in "fg")
        pm.Normal("y", f, pt.exp(pt.switch(z, g[::-1], g)), observed=np.zeros(4))
    with pytest.raises(ModelError, match="values of the latent vectors that have different indices"):
        taking_apart.take_apart(model)


def test_rows_have_the_values_of_each_element():
    with pm.Model() as model:
        pm.DiscreteUniform("lag", 2, 5)
        pm.Bernoulli("label", 0.05, shape=400)
    rows = settings_of(model)
    assert len(rows) <= MOST
    assert {2.0, 3.0, 4.0, 5.0} <= set(rows[:, 0])
    assert all({0.0, 1.0} <= set(column) for column in rows[:, 1:].T)


def test_with_a_flat_prior_the_values_beside_the_initial_one_are_tried():
    with pm.Model() as model:
        pm.Poisson("number", pm.HalfFlat("rate"), initval=3)
    assert_array_equal(np.sort(settings_of(model).ravel()), [2.0, 4.0])


def log_evidence(s: float, lag: int) -> float:
    """By a forward recursion over a grid of the latent values."""
    grid = np.linspace(-9.0, 9.0, 601)
    step = norm.pdf(grid[:, None], grid, s) * (grid[1] - grid[0])
    forward, total = norm.pdf(grid) * (grid[1] - grid[0]), 0.0
    for place in range(5):
        if place:
            forward = step @ forward
        if 0 <= place - lag < 4:
            forward = forward * poisson.pmf(COUNTS[place - lag], np.exp(grid))
        total, forward = total + np.log(forward.sum()), forward / forward.sum()
    return total


def truth() -> tuple[float, float]:
    """The posterior's mean of log s, and the probability of the lag 1."""
    logs = np.linspace(-2.0, 2.5, 91)
    joint = np.array([[norm.logpdf(x, 0.0, 0.7) + log_evidence(np.exp(x), lag) for lag in (0, 1)] for x in logs])
    weights = np.exp(joint - logsumexp(joint))
    return float(logs @ weights.sum(axis=1)), float(weights[:, 1].sum())


def distance(seed: int) -> float:
    """The largest standardized difference of a chain's means from the truth."""
    mean, chance = truth()
    with with_lag(0):
        idata = pm.sample(
            1500, tune=300, chains=2, cores=1, random_seed=seed, progressbar=False,
            step=pmgp.PseudoMarginal(compile_kwargs=FAST), compute_convergence_checks=False,
        )  # fmt: skip
    draws = {"mean": np.log(idata["posterior"]["s"]) - mean, "chance": idata["posterior"]["lag"] - chance}
    return max(abs(float(x.mean() / az.mcse(x.to_dataset(name="x"))["x"])) for x in draws.values())


def test_a_chain_with_an_unknown_lag_has_its_posterior():
    assert confirmed(distance, 4.0) < 4.0
