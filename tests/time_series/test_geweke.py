"""Geweke's test of the chain on a PyMC model of a time series: its own draws of theta, x and y are the truth.

Some iterations from there must leave all moments (Gandy and Scott 2020).
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pmgp
from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.markov import PathSampling
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model import model_prior
from pmgp.interface.model.markov import SeriesPrior
from pmgp.interface.model.taking_apart import take_apart
from tests import mean_changes
from tests.marginal.geweke import ready_point
from tests.markov.test_geweke import LEARNED

SIZE, REPLICATES, BOUND = 5, 1200, 4.0


def joint_model() -> pm.Model:
    with pm.Model() as model:
        rho, log_scale = pm.Normal("rho", 0.6, 0.2), pm.Normal("log_scale", -0.3, 0.3)
        first = pm.Normal.dist(0.5, pm.math.exp(log_scale) / 2.0)
        graph = pt.stack([0.2, rho])
        x = pm.AR("x", rho=graph, sigma=pm.math.exp(log_scale), constant=True, init_dist=first, shape=SIZE)
        pm.Poisson("y", pm.math.exp(x), observed=pm.Data("counts", np.ones(SIZE, dtype=int)))
    return model


def statistics(theta: np.ndarray, f: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.array([*theta, *theta**2, theta[0] * theta[1], f[0], f[0] ** 2, f.mean(), f @ f, f[1:] @ f[:-1], y @ f])


@cache
def draws() -> list[np.ndarray]:
    """Rho, the log of the scale, x and y, from which every chain begins."""
    model = joint_model()
    return pm.draw(
        [model[name] for name in ("rho", "log_scale", "x", "y")], REPLICATES, random_seed=1, mode=INTERPRETED
    )


def largest_change(estimator, iterations: int = 3) -> float:
    model, rows = joint_model(), []
    scheme = PseudoMarginalChain(estimator, latent_moves=1, refresh_every=2)
    parts, rng, frozen = take_apart(model), np.random.default_rng(2), Frozen(LEARNED, None, estimator.draws)
    evaluate = Evaluator(parts, Laplace(sweeps=0))
    for rho, log_scale, f, y in zip(*draws(), strict=True):
        model.set_data("counts", y)
        parts.refresh_data()
        theta = np.array([rho, log_scale])
        current = ready_point(evaluate, theta)
        state = scheme.refresh(rng, State(theta, f, 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        rows.append([statistics(theta, f, y), statistics(state.theta, state.particle, y)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))


def test_joint_distribution_is_kept():
    """Importance samples have the core's test (`markov/`)."""
    assert largest_change(PathSampling(3, width=1, threshold=1.0)) < BOUND


class Forgetful(SeriesPrior):
    """A twin that gives the first value the variance of the others, given these."""

    def __call__(self, theta):
        prior = super().__call__(theta)
        values = prior.values.copy()
        values[0, 0] -= 3.0 * np.exp(-2.0 * theta[1])
        return replace(prior, values=values)


def test_a_twin_that_ignores_the_first_distribution_is_rejected(monkeypatch):
    monkeypatch.setattr(model_prior, "KINDS", [(model_prior.is_markov, Forgetful)])
    assert largest_change(PathSampling(3, width=1, threshold=1.0)) > 2.0 * BOUND


class Driftless(SeriesPrior):
    """A twin without a mean."""

    def __call__(self, theta):
        prior = super().__call__(theta)
        return replace(prior, state_mean=np.zeros_like(prior.state_mean))


def test_the_approximation_of_a_twin_differs(monkeypatch):
    """What the slow tests reject is seen in one evidence, too."""
    with joint_model() as model:
        right = pmgp.marginal.log_likelihood(model, estimator="none", random_seed=1).value
        monkeypatch.setattr(model_prior, "KINDS", [(model_prior.is_markov, Driftless)])
        wrong = pmgp.marginal.log_likelihood(model, estimator="none", random_seed=1).value
    assert abs(right - wrong) > 0.05
