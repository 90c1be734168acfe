"""Geweke's test of a mean and a log scale for each observation: the model's own draws are the truth.

Some iterations from there must leave all moments (Gandy and Scott 2020).
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from pmgp.core.markov import PathSampling
from pmgp.interface.model import coupled_predictors
from tests.linear_predictors.geweke import largest_change

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


def change(iterations: int = 4) -> float:
    return largest_change(
        joint_model(), drawn, statistics, PathSampling(3, width=2, threshold=1.0), REPLICATES, iterations
    )


def test_joint_distribution_is_kept():
    assert change() < 0.75 * BOUND


def test_a_twin_whose_log_scale_has_the_wrong_sign_is_rejected(monkeypatch):
    own = coupled_predictors.CoupledPredictors.refresh

    def turned(self, rows):
        own(self, rows)
        self.rows = (self.rows[0], -0.5 * self.rows[1])
        self.design = self.design.multiply(np.repeat([1.0, -0.5], self.shared.sites)[:, None]).tocsr()

    monkeypatch.setattr(coupled_predictors.CoupledPredictors, "refresh", turned)
    assert change(2) > 2.0 * BOUND
