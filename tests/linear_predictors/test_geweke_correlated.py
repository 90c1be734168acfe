"""Geweke's test of intercepts and slopes of groups with an LKJ covariance, centered and as a factor times z."""

from __future__ import annotations

from functools import cache

import numpy as np
import pymc as pm
import pytest

from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.core.markov import PathSampling
from pmgp.core.transitions.mixture import LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal
from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model import pieces
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.model.theta_maps import ThetaMap
from tests import mean_changes
from tests.marginal.geweke import ready_point

REPLICATES, BOUND, GROUPS = {True: 400, False: 200}, 4.0, 6
"""Replicates where effects are centered and where they are not; the twin of the latter is much further off."""
GROUP, Z = np.arange(24) % GROUPS, np.linspace(-1.0, 1.5, 24)
LEARNED = LearnedMixture.fixed(
    AdaptiveProposal(
        3,
        independence=0.5,
        log_scale=0.2,
        location=np.array([-0.4, 0.1, -0.5]),
        factor=np.array([[0.4, 0.0, 0.0], [0.05, 0.4, 0.0], [0.0, 0.1, 0.4]]),
    )
)


def joint_model(centered: bool) -> pm.Model:
    with pm.Model() as model:
        scales = pm.LogNormal.dist(np.array([-0.5, -0.3]), 0.3, shape=2)
        chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=1.0, sd_dist=scales)
        if centered:
            u = pm.MvNormal("u", np.zeros(2), chol=chol, shape=(GROUPS, 2))
        else:
            u = (chol @ pm.Normal("u", 0.0, 1.0, shape=(2, GROUPS))).T
        counts = pm.Data("counts", np.ones(24, dtype=int))
        pm.Poisson("y", pm.math.exp(0.5 + u[GROUP, 0] + Z * u[GROUP, 1]), observed=counts)
    return model


def effects(theta: np.ndarray, u: np.ndarray, centered: bool) -> np.ndarray:
    factor = np.array([[np.exp(theta[0]), 0.0], [theta[1], np.exp(theta[2])]])
    return u if centered else (factor @ u).T


def statistics(theta: np.ndarray, u: np.ndarray, y: np.ndarray, centered: bool) -> np.ndarray:
    both = effects(theta, u, centered)
    eta, product = both[GROUP, 0] + Z * both[GROUP, 1], both.T @ both
    along = 0 if centered else 1
    of_u = [*u.sum(axis=along), *(u**2).sum(axis=along), *product[np.triu_indices(2)]]
    return np.array([*theta, *theta**2, *of_u, product[0, 1] * theta[1], y @ eta, both[:, 1] @ eta[:GROUPS]])


@cache
def draws(centered: bool) -> list[np.ndarray]:
    """The packed factor, u and y, from which every chain begins."""
    model = joint_model(centered)
    return pm.draw([model["chol"], model["u"], model["y"]], REPLICATES[centered], random_seed=1, mode=INTERPRETED)


def largest_change(centered: bool, iterations: int = 4) -> float:
    model, rows, estimator = joint_model(centered), [], PathSampling(3, width=2, threshold=1.0)
    scheme = PseudoMarginalChain(estimator, latent_moves=1, refresh_every=1)
    parts, rng, frozen = take_apart(model), np.random.default_rng(2), Frozen(LEARNED, None, estimator.draws)
    evaluate = Evaluator(parts, Laplace(sweeps=0))
    for packed, u, y in zip(*draws(centered), strict=True):
        model.set_data("counts", y)
        parts.model_likelihood._inner.functions.refresh_data()
        theta = np.array([np.log(packed[0]), packed[1], np.log(packed[2])])
        current = ready_point(evaluate, theta)
        f = parts.ravel_latent(parts.unravel(theta) | {"u": u})
        state = scheme.refresh(rng, State(theta, f, 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        after = parts.unravel_latent(state.particle, state.theta)["u"]
        rows.append([statistics(theta, u, y, centered), statistics(state.theta, after, y, centered)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))


@pytest.mark.parametrize("centered", [True, False])
def test_joint_distribution_is_kept(centered):
    assert largest_change(centered) < 0.75 * BOUND


def test_a_twin_with_independent_intercepts_and_slopes_is_rejected(monkeypatch):
    precision_of = pieces.precision_of
    monkeypatch.setattr(pieces, "precision_of", lambda covariance: precision_of(np.diag(np.diag(covariance))))
    assert largest_change(centered=True) > 2.0 * BOUND


def test_a_twin_that_never_goes_back_from_u_to_z_is_rejected(monkeypatch):
    monkeypatch.setattr(ThetaMap, "preimage", lambda self, theta, u: u.reshape(GROUPS, 2).T.ravel())
    assert largest_change(centered=False, iterations=2) > 2.0 * BOUND
