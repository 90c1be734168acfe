"""How many importance samples: from the measured spread of log p^(y|theta) at posterior points of tuning."""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.estimators.base import Calibrated, Estimator
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.marginal.evaluation import Evaluator, Fitted, Ready

__all__ = ["LARGE_SPREAD", "choose_draws"]

CANDIDATES = (16, 32, 64, 128, 256, 512)
# The efficiency of a pseudo-marginal chain per unit of work is best for a standard deviation of the log-estimate
# near one (Doucet, Pitt, Deligiannidis and Kohn 2015), and poor above LARGE_SPREAD.
TARGET_SPREAD = 1.0
LARGE_SPREAD = 1.5
DEFAULT_DRAWS = 64


def choose_draws(
    rng: np.random.Generator,
    estimator: Estimator,
    thetas: list[np.ndarray],
    evaluate: Evaluator,
    predictor: Predictor | None,
) -> tuple[int | None, float]:
    """Choose the number of importance samples, or take the estimator's own.

    Parameters
    ----------
    rng : numpy.random.Generator
    estimator : Estimator
    thetas : list of (dimension,) arrays
        Posterior points, from the second half of tuning.
    evaluate : Evaluator
    predictor : Predictor or None

    Returns
    -------
    draws : int or None
        None for an estimator that knows its own number.
    spread : float
        Standard deviation of the log-estimate with that number, the upper quartile over `thetas`; NaN without any, and
        where the estimator is not `Calibrated`.
    """
    if not isinstance(estimator, Calibrated):
        return None, np.nan
    fixed = None if estimator.draws == "auto" else int(estimator.draws)
    if not thetas:
        return fixed or DEFAULT_DRAWS, np.nan
    candidates = CANDIDATES if fixed is None else (fixed,)
    spreads = np.array([_spreads(rng, estimator, theta, evaluate, predictor, candidates) for theta in thetas])
    # The higher of two neighbors, not a mean of them: a spread may be infinite.
    typical = np.quantile(spreads, 0.75, axis=0, method="higher")
    enough = np.flatnonzero(typical <= TARGET_SPREAD)
    chosen = int(enough[0]) if enough.size else len(candidates) - 1
    return candidates[chosen], float(typical[chosen])


def _spreads(
    rng: np.random.Generator,
    estimator: Calibrated,
    theta: np.ndarray,
    evaluate: Evaluator,
    predictor: Predictor | None,
    candidates: tuple[int, ...],
) -> list[float]:
    """Standard deviation of the log-estimate at one theta for each number of draws, from one pool of log-weights."""
    evaluation = evaluate(theta, predictor)
    ready = evaluate.prepare(evaluation) if isinstance(evaluation, Fitted) else evaluation
    if not isinstance(ready, Ready):
        return [np.inf] * len(candidates)
    pool = max(estimator.calibration_pool, 4 * max(candidates))
    estimate = estimator.estimate(rng, ready.approximation, ready.likelihood, pool)
    log_weights = _pairs_adjacent(estimate.log_weights, estimator.antithetic)
    return [_spread_of_groups(log_weights, draws, estimator.antithetic and draws > 1, rng) for draws in candidates]


def _pairs_adjacent(log_weights: np.ndarray, antithetic: bool) -> np.ndarray:
    """Put mirror images side by side, so that groups of consecutive weights hold whole pairs."""
    return log_weights.reshape(2, -1).T.ravel() if antithetic else log_weights


def _spread_of_groups(log_weights: np.ndarray, draws: int, paired: bool, rng: np.random.Generator) -> float:
    """Spread of the log-estimate, from how often a fresh one would replace a stored one at the same theta.

    A chain's stored estimate holds a particle from the posterior, whose weight may be far larger than any that a few
    draws from q show; groups of fresh weights alone would miss that tail. For normal errors of the log-estimate with
    standard deviation s the acceptance rate is 2 Phi(-s / sqrt(2)), which is solved for s.
    """
    groups = log_weights[: len(log_weights) // draws * draws].reshape(-1, draws)
    fresh = log_mean_exp(groups)
    weights = np.exp(log_weights - log_weights.max())
    held = groups.copy()
    chosen = rng.choice(len(log_weights), size=len(groups), p=weights / weights.sum())
    held[:, 0] = log_weights[chosen]
    if paired:
        # The mirror image comes along; partners differ in the last bit of their index.
        held[:, 1] = log_weights[chosen ^ 1]
    stored = log_mean_exp(held)
    acceptance = np.exp(np.minimum(0.0, fresh[:, None] - stored[None, :])).mean()
    return float(-np.sqrt(2.0) * ndtri(0.5 * acceptance))
