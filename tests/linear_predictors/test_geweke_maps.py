"""Geweke's test of BYM2, which has scales before its pieces: the model's own draws of theta, x and y are the truth."""

from __future__ import annotations

import numpy as np
import pymc as pm

from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.markov import PathSampling
from pmgp.interface.model import sums
from pmgp.interface.model.taking_apart import take_apart
from tests import mean_changes
from tests.fields.models import lattice_neighbors
from tests.marginal.geweke import ready_point
from tests.markov.test_geweke import LEARNED

REPLICATES, BOUND = 400, 4.0
W = lattice_neighbors(4, 3)
N = len(W)
AREA = np.arange(24) % N


def joint_model() -> pm.Model:
    with pm.Model() as model:
        log_sigma, share = pm.Normal("log_sigma", -0.2, 0.3), pm.Normal("share", 0.0, 0.5)
        rho = pm.math.sigmoid(share)
        theta, phi = pm.Normal("theta", 0.0, 1.0, shape=N), pm.ICAR("phi", W=W)
        both = pm.math.exp(log_sigma) * (pm.math.sqrt(1.0 - rho) * theta + pm.math.sqrt(rho) * phi)
        counts = pm.Data("counts", np.ones(24, dtype=int))
        pm.Poisson("y", pm.math.exp(0.3 + both[AREA]), observed=counts)
    return model


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Theta, x and y."""
    at = np.array([-0.2 + 0.3 * rng.normal(), 0.5 * rng.normal()])
    covariance = np.linalg.pinv(np.diag(W.sum(axis=0)) - W) + 0.001**2
    x = np.concatenate([rng.normal(size=N), rng.multivariate_normal(np.zeros(N), covariance)])
    return at, x, rng.poisson(np.exp(0.3 + areas(at, x)[AREA]))


def areas(at: np.ndarray, x: np.ndarray) -> np.ndarray:
    rho = 1.0 / (1.0 + np.exp(-at[1]))
    return np.exp(at[0]) * (np.sqrt(1.0 - rho) * x[:N] + np.sqrt(rho) * x[N:])


def statistics(at: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    theta, phi, both = x[:N], x[N:], areas(at, x)
    squares = [theta @ theta, phi @ phi, both @ both, phi @ W @ phi, theta @ phi]
    return np.array([*at, *at**2, theta.sum(), phi[0], both.sum(), *squares, y @ both[AREA], at[0] * (phi @ phi)])


def largest_change(iterations: int = 4) -> float:
    model, rows = joint_model(), []
    estimator = PathSampling(3, width=2, threshold=1.0)
    scheme = PseudoMarginalChain(estimator, latent_moves=1, refresh_every=1)
    parts, rng, frozen = take_apart(model), np.random.default_rng(2), Frozen(LEARNED, None, estimator.draws)
    evaluate = Evaluator(parts, Laplace(sweeps=0))
    for _ in range(REPLICATES):
        at, x, y = drawn(rng)
        model.set_data("counts", y)
        parts.model_likelihood._inner.functions.refresh_data()
        current = ready_point(evaluate, at)
        point = parts.unravel(at) | {"theta": x[:N], "phi": x[N:]}
        state = scheme.refresh(rng, State(at, parts.ravel_latent(point), 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        values = parts.unravel_latent(state.particle, state.theta)
        after = np.concatenate([values["theta"], values["phi"]])
        rows.append([statistics(at, x, y), statistics(state.theta, after, y)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))


def test_joint_distribution_is_kept():
    assert largest_change() < 0.75 * BOUND


def test_a_twin_whose_scales_are_variances_is_rejected(monkeypatch):
    scaled = sums._scaled
    monkeypatch.setattr(sums, "_scaled", lambda block, scale: scaled(block, np.sqrt(scale)))
    assert largest_change(iterations=2) > 2.0 * BOUND
