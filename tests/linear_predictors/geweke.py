"""Geweke's test of the pseudo-marginal chain of a model with linear predictors, whose data are named "measured"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm

from pmgp.core.approximations import Laplace
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain, State
from pmgp.interface.model.taking_apart import take_apart
from tests import mean_changes
from tests.marginal.geweke import ready_point
from tests.markov.test_geweke import LEARNED


def largest_change(
    model: pm.Model,
    drawn: Callable[[np.random.Generator], tuple[np.ndarray, np.ndarray, np.ndarray]],
    statistics: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray],
    estimator: Any,
    replicates: int,
    iterations: int,
    latent: list[str] | None = None,
) -> float:
    """The largest mean change of the statistics of theta, f and y by some iterations from draws of all three."""
    scheme, rows = PseudoMarginalChain(estimator, latent_moves=1, refresh_every=1), []
    parts, rng, frozen = take_apart(model, latent), np.random.default_rng(2), Frozen(LEARNED, None, estimator.draws)
    evaluate = Evaluator(parts, Laplace(sweeps=0))
    for _ in range(replicates):
        at, x, y = drawn(rng)
        model.set_data("measured", y)
        parts.model_likelihood._inner.functions.refresh_data()
        current = ready_point(evaluate, at)
        state = scheme.refresh(rng, State(at, x, 0.0, 1.0, 0), current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        rows.append([statistics(at, x, y), statistics(state.theta, state.particle, y)])
    return mean_changes.largest_change(*np.swapaxes(rows, 0, 1))
