"""Geweke's test of the chain with two latent pieces: a model's own draws of theta, x and y are the truth.

Some iterations from there must leave all moments (Gandy and Scott 2020).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm

from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.markov import PathSampling, SparsePattern
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.taking_apart import take_apart
from tests import mean_changes
from tests.marginal.geweke import ready_point
from tests.markov.test_geweke import LEARNED

REPLICATES, BOUND = 300, 4.0
GROUPS, TIMES = 12, 8
GROUP, TIME = np.arange(24) % GROUPS, np.arange(24) // 3


def joint_model() -> pm.Model:
    with pm.Model() as model:
        log_tau, log_scale = pm.Normal("log_tau", -0.2, 0.3), pm.Normal("log_scale", -0.3, 0.3)
        u = pm.Normal("u", 0.3, pm.math.exp(log_tau), shape=GROUPS)
        s = pm.GaussianRandomWalk(
            "s", sigma=pm.math.exp(log_scale), init_dist=pm.Normal.dist(0.0, np.float64(0.7)), shape=TIMES
        )
        counts = pm.Data("counts", np.ones(24, dtype=int))
        pm.Poisson("y", pm.math.exp(u[GROUP] + s[TIME] + 0.2 * log_tau), observed=counts)
    return model


def statistics(theta: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    u, s = x[:GROUPS], x[GROUPS:]
    eta = u[GROUP] + s[TIME]
    return np.array(
        [
            *theta,
            *theta**2,
            u.sum(),
            u @ u,
            s[-1],
            s @ s,
            np.diff(s) @ np.diff(s),
            u.sum() * s.sum(),
            y @ eta,
            u @ u * theta[0],
        ]
    )


@cache
def draws() -> list[np.ndarray]:
    """Logs of both scales, u, s and y, from which every chain begins."""
    model = joint_model()
    return pm.draw(
        [model[name] for name in ("log_tau", "log_scale", "u", "s", "y")], REPLICATES, random_seed=1, mode=INTERPRETED
    )


def largest_change(estimator, spoil=lambda parts: None, iterations: int = 4) -> float:
    model, rows = joint_model(), []
    scheme = PseudoMarginalChain(estimator, latent_moves=1, refresh_every=1)
    parts, rng, frozen = take_apart(model), np.random.default_rng(2), Frozen(LEARNED, None, estimator.draws)
    spoil(parts)
    evaluate = Evaluator(parts, Laplace(sweeps=0))
    for log_tau, log_scale, u, s, y in zip(*draws(), strict=True):
        model.set_data("counts", y)
        parts.model_likelihood._inner.functions.refresh_data()
        theta, x = np.array([log_tau, log_scale]), np.concatenate([u, s])
        current = ready_point(evaluate, theta)
        start = State(theta, parts.latent_vector.design @ x, 0.0, 1.0, 0)
        state = scheme.refresh(rng, start, current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        rows.append([statistics(theta, x, y), statistics(state.theta, state.particle[: GROUPS + TIMES], y)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))


PATHS = PathSampling(3, width=2, threshold=1.0)


def test_joint_distribution_is_kept():
    """Importance samples have the core's test (`markov/`)."""
    assert largest_change(PATHS) < 0.75 * BOUND


def turn_the_trend(parts: LatentGaussianModel) -> None:
    """A twin whose sums have the trend with the wrong sign."""
    design = parts.latent_vector.design.copy()
    design.data[GROUPS + TIMES + 1 :: 2] = -1.0
    parts.latent_vector.design = design
    parts.latent_prior._arrange()


def test_a_twin_with_wrong_signs_in_the_design_is_rejected():
    assert largest_change(PATHS, turn_the_trend, iterations=2) > 2.0 * BOUND


def test_a_twin_whose_retained_path_is_not_the_particle_is_rejected(monkeypatch):
    """Its effects are those of the approximation, and not the particle's."""
    monkeypatch.setattr(SparsePattern, "drawn_given", lambda self, rng, values, f: np.zeros(self.shape))
    assert largest_change(PATHS, iterations=2) > 2.0 * BOUND
