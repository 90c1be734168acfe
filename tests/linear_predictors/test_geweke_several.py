"""Geweke's test of a mean and a log scale for each observation: the model's own draws are the truth.

Some iterations from there must leave all moments (Gandy and Scott 2020).
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.markov import PathSampling
from pmgp.interface.model import coupled_predictors
from pmgp.interface.model.taking_apart import take_apart
from tests import mean_changes
from tests.marginal.geweke import ready_point
from tests.markov.test_geweke import LEARNED

REPLICATES, BOUND = 200, 4.0
GROUPS = 6
GROUP = np.arange(24) % GROUPS
OTHER = np.arange(24) // 4


def joint_model() -> pm.Model:
    with pm.Model() as model:
        log_tau, log_omega = pm.Normal("log_tau", -0.2, 0.3), pm.Normal("log_omega", -0.9, 0.3)
        u = pm.Normal("u", 0.3, pm.math.exp(log_tau), shape=GROUPS)
        v = pm.Normal("v", 0.0, pm.math.exp(log_omega), shape=GROUPS)
        y = pm.Data("measured", np.ones(24))
        pm.Normal("y", u[GROUP] - 0.5 * v[OTHER], pm.math.exp(0.2 * log_tau + v[OTHER]), observed=y)
    return model


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Theta, x and y."""
    at = np.array([-0.2, -0.9]) + 0.3 * rng.normal(size=2)
    u, v = 0.3 + np.exp(at[0]) * rng.normal(size=GROUPS), np.exp(at[1]) * rng.normal(size=GROUPS)
    mean, deviation = u[GROUP] - 0.5 * v[OTHER], np.exp(0.2 * at[0] + v[OTHER])
    return at, np.concatenate([u, v]), mean + deviation * rng.normal(size=24)


def statistics(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    u, v = x[:GROUPS], x[GROUPS:]
    sums = [u.sum(), u @ u, v.sum(), v @ v, u.sum() * v.sum(), y @ u[GROUP], y**2 @ v[OTHER]]
    return np.array([*at, *at**2, *sums, at[0] * (u @ u), at[1] * (v @ v)])


def largest_change(iterations: int = 4) -> float:
    model, rows = joint_model(), []
    estimator = PathSampling(3, width=2, threshold=1.0)
    scheme = PseudoMarginalChain(estimator, latent_moves=1, refresh_every=1)
    parts, rng, frozen = take_apart(model), np.random.default_rng(2), Frozen(LEARNED, None, estimator.draws)
    evaluate = Evaluator(parts, Laplace(sweeps=0))
    for _ in range(REPLICATES):
        at, x, y = drawn(rng)
        model.set_data("measured", y)
        parts.model_likelihood._inner.functions.refresh_data()
        current = ready_point(evaluate, at)
        state = scheme.refresh(rng, State(at, x, 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        rows.append([statistics(at, x, y), statistics(state.theta, state.particle, y)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))


def test_joint_distribution_is_kept():
    assert largest_change() < 0.75 * BOUND


def test_a_twin_whose_log_scale_has_the_wrong_sign_is_rejected(monkeypatch):
    own = coupled_predictors.CoupledPredictors.refresh

    def turned(self, rows):
        own(self, rows)
        self.rows = (self.rows[0], -0.5 * self.rows[1])
        self.design = self.design.multiply(np.repeat([1.0, -0.5], self.shared.sites)[:, None]).tocsr()

    monkeypatch.setattr(coupled_predictors.CoupledPredictors, "refresh", turned)
    assert largest_change(2) > 2.0 * BOUND
