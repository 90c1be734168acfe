"""Geweke's test of differences of a process's values beside effects: the model's own draws are the truth.

Some iterations from there must leave all moments (Gandy and Scott 2020).
"""

from __future__ import annotations

import numpy as np
import pymc as pm

from pmgp.core.estimators import ImportanceSampling
from pmgp.interface.model import coupled_predictors
from tests.linear_predictors.geweke import largest_change

REPLICATES, BOUND = 400, 4.5
X = np.linspace(0.0, 2.0, 5)[:, None]
FIRST, SECOND, GROUP = np.arange(20) % 5, np.arange(20) * 2 % 5, np.arange(20) // 7
CORRELATION = np.exp(-0.5 * (X - X.T) ** 2) + 1e-6 * np.eye(5)


def joint_model() -> pm.Model:
    with pm.Model() as model:
        log_scale, log_tau = pm.Normal("log_scale", 0.2, 0.3), pm.Normal("log_tau", -0.5, 0.3)
        f = pm.MvNormal("f", np.full(5, 0.3), pm.math.exp(2.0 * log_scale) * CORRELATION)
        u = pm.Normal("u", 0.0, pm.math.exp(log_tau), shape=3)
        y = pm.Data("measured", np.ones(20, dtype=int))
        pm.Poisson("y", pm.math.exp(f[FIRST] - 0.7 * f[SECOND] + u[GROUP]), observed=y)
    return model


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Theta, f and u, and y."""
    at = np.array([0.2, -0.5]) + 0.3 * rng.normal(size=2)
    f = 0.3 + np.exp(at[0]) * np.linalg.cholesky(CORRELATION) @ rng.normal(size=5)
    u = np.exp(at[1]) * rng.normal(size=3)
    return at, np.concatenate([f, u]), rng.poisson(np.exp(f[FIRST] - 0.7 * f[SECOND] + u[GROUP]))


def statistics(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    f, u = x[:5], x[5:]
    with_y = np.log1p(y)
    return np.array([*at, *at**2, f.sum(), u.sum(), with_y @ f[FIRST], with_y @ f[SECOND], with_y @ u[GROUP]])


def change(iterations: int = 4) -> float:
    return largest_change(joint_model(), drawn, statistics, ImportanceSampling(4), REPLICATES, iterations, ["f", "u"])


def test_joint_distribution_is_kept():
    assert change() < 0.75 * BOUND


def test_a_twin_with_sums_in_place_of_differences_is_rejected(monkeypatch):
    own = coupled_predictors.CoupledPredictors.refresh

    def turned(self, rows):
        own(self, rows)
        self.rows = tuple(abs(one) for one in self.rows)
        self.design = abs(self.design)

    monkeypatch.setattr(coupled_predictors.CoupledPredictors, "refresh", turned)
    assert change(2) > 2.0 * BOUND
