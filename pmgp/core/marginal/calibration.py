"""The choice of the number of draws from the spread of log p^(y|theta), measured at posterior points of tuning.

If the work is known, the number with the lowest cost of an effective draw is chosen. The screen costs the same for any
number of draws, and estimates with a large spread make a chain stick (:func:`inefficiency`).

A chain's stored estimate holds a particle from the posterior, whose weight may be far larger than the weights of draws
from q. If one weight makes up nearly the whole sum, the pool of importance samples says little about that. An estimator
that finds such particles then shows the spread of another estimator whose stored estimates hold them
(:func:`measured_beside`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from pmgp.core.adaptation.mode_prediction import Predictor
from pmgp.core.estimators.base import Calibrated, Estimate, Estimator, Repeated
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.marginal.evaluation import Evaluator, Fitted, Ready

Price = Callable[[int, float], float]
"""The price of an effective draw of the chain, given the number of draws of an estimate and its log's spread."""

CANDIDATES = (16, 32, 64, 128, 256, 512)
# If draws are the only work, a pseudo-marginal chain is best for a standard deviation of the log-estimate near one
# (Doucet, Pitt, Deligiannidis and Kohn 2015), and poor above LARGE_SPREAD.
TARGET_SPREAD = 1.0
# Target if each estimate is repeated only a few times, which does not show its tails. On six classes of glass, chains
# with 512 particles (a spread of 0.5) have three times as many effective draws per iteration as with 128 or 256.
TARGET_OF_REPEATS = 0.5
LARGE_SPREAD = 1.5
DEFAULT_DRAWS = 64
# Range, in standard deviations to either side, and number of points of the grid for errors of stored estimates.
FARTHEST, POINTS = 8.0, 401


def choose_draws(
    rng: np.random.Generator,
    estimator: Estimator,
    thetas: list[np.ndarray],
    evaluate: Evaluator,
    predictor: Predictor | None,
    price: Price | None = None,
) -> tuple[int | None, float]:
    """Return the chosen number of draws, or the estimator's own, and the spread with that number.

    - `thetas` list of (dimension,) arrays: posterior points, from the second half of tuning
    - `price`: the number of draws with the lowest price is chosen; without a price, the smallest number that suffices

    Returns `draws`: None for an estimator that knows its own number; `spread`: standard deviation of the log-estimate
    with that number, the upper quartile over `thetas`; NaN if there are no `thetas`, or if the estimator is neither
    `Calibrated` nor `Repeated`.
    """
    if not isinstance(estimator, Calibrated | Repeated):
        return None, np.nan
    if not thetas:
        return (DEFAULT_DRAWS if estimator.draws == "auto" else int(estimator.draws)), np.nan
    candidates = _candidates(estimator)
    points = (_ready(theta, evaluate, predictor) for theta in thetas)
    return _chosen(estimator, [_spreads(rng, estimator, ready, candidates) for ready in points], price)


def inefficiency(spread: float) -> float:
    """Return the iterations for one effective draw if only the estimates cause rejections of independent proposals.

    With normal errors z of the log-estimate, of standard deviation s, a stored estimate is replaced with probability
    a(z) = Phi(-z/s - s/2) + exp(-z) Phi(z/s - s/2). The integrated autocorrelation time is the mean of 2/a - 1 over
    stored estimates, whose errors have the mean s^2/2 (Pitt, dos Santos Silva, Giordani and Kohn 2012).

    `spread`: the standard deviation s.
    """
    if not np.isfinite(spread):
        return np.inf
    # x is in standard deviations from the mean of stored errors; the mean of fresh errors is at -s.
    x = np.linspace(-FARTHEST, FARTHEST, POINTS)
    z = spread * (x + 0.5 * spread)
    accepted = ndtr(-x - spread) + np.exp(-z) * ndtr(x)
    # The mean is infinite if an estimate is practically never replaced.
    with np.errstate(divide="ignore"):
        return float(np.average(2.0 / accepted - 1.0, weights=np.exp(-0.5 * x**2)))


def measured_beside(
    rng: np.random.Generator,
    own: tuple[Calibrated, int],
    estimator: Repeated,
    thetas: list[np.ndarray],
    evaluate: Evaluator,
    predictor: Predictor | None,
) -> tuple[tuple[int, float], float]:
    """Return an estimator's number of draws, and the spread of importance sampling with the particles that it finds.

    `own`: importance sampling, and the number of its draws; `thetas` list of (dimension,) arrays: posterior points, at
    least one.

    Returns `found`: the result of :func:`choose_draws`; `spread`: spread of importance sampling if stored estimates
    hold such particles, from the rate at which they are replaced.
    """
    candidates = _candidates(estimator)
    spreads, beside = [], []
    for theta in thetas:
        ready = _ready(theta, evaluate, predictor)
        if ready is None:
            spreads.append([np.inf] * len(candidates))
            beside.append(np.inf)
            continue
        estimates = _repeats(rng, estimator, ready)
        logs = np.array([estimate.log_evidence for estimate in estimates])
        spreads.append(_scaled_spreads(logs, estimator, candidates))
        particles = np.array([estimate.choose(rng) for estimate in estimates])
        beside.append(_spread_with(rng, *own, ready, particles, logs))
    return _chosen(estimator, spreads), float(_typical(np.array(beside)))


def _candidates(estimator: Calibrated | Repeated) -> tuple[int, ...]:
    return CANDIDATES if estimator.draws == "auto" else (int(estimator.draws),)


def _typical(spreads: np.ndarray) -> np.ndarray:
    """Return the upper quartile over points: of two neighbors the higher, not the mean, as spreads may be infinite."""
    return np.quantile(spreads, 0.75, axis=0, method="higher")


def _chosen(
    estimator: Calibrated | Repeated, spreads: list[list[float]], price: Price | None = None
) -> tuple[int, float]:
    """Return the cheapest number of draws, or the smallest that suffices, or the largest, with its spread."""
    candidates, typical = _candidates(estimator), _typical(np.array(spreads))
    if price is not None and np.isfinite(typical).any():
        lowest = int(np.argmin([price(*each) for each in zip(candidates, typical, strict=True)]))
        return candidates[lowest], float(typical[lowest])
    target = TARGET_OF_REPEATS if isinstance(estimator, Repeated) else TARGET_SPREAD
    enough = np.flatnonzero(typical <= target)
    chosen = int(enough[0]) if enough.size else len(candidates) - 1
    return candidates[chosen], float(typical[chosen])


def _ready(theta: np.ndarray, evaluate: Evaluator, predictor: Predictor | None) -> Ready | None:
    evaluation = evaluate(theta, predictor)
    ready = evaluate.prepare(evaluation) if isinstance(evaluation, Fitted) else evaluation
    return ready if isinstance(ready, Ready) else None


def _spreads(
    rng: np.random.Generator, estimator: Calibrated | Repeated, ready: Ready | None, candidates: tuple[int, ...]
) -> list[float]:
    """Return the standard deviation of the log-estimate at one theta for each number of draws."""
    if ready is None:
        return [np.inf] * len(candidates)
    if isinstance(estimator, Repeated):
        logs = np.array([estimate.log_evidence for estimate in _repeats(rng, estimator, ready)])
        return _scaled_spreads(logs, estimator, candidates)
    log_weights = _pool(rng, estimator, ready, max(candidates))
    return [_spread_of_groups(log_weights, draws, estimator.antithetic and draws > 1, rng) for draws in candidates]


def _pool(rng: np.random.Generator, estimator: Calibrated, ready: Ready, draws: int) -> np.ndarray:
    """Return independent log-weights, enough for at least four groups of `draws`."""
    pool = max(estimator.calibration_pool, 4 * draws)
    estimate = estimator.estimate(rng, ready.approximation, ready.likelihood, pool)
    return _pairs_adjacent(estimate.log_weights, estimator.antithetic)


def _repeats(rng: np.random.Generator, estimator: Repeated, ready: Ready) -> list[Estimate]:
    known = ready.approximation, ready.likelihood, estimator.calibration_draws
    return [estimator.estimate(rng, *known) for _ in range(estimator.calibration_repeats)]


def _scaled_spreads(logs: np.ndarray, estimator: Repeated, candidates: tuple[int, ...]) -> list[float]:
    """Return spreads for several numbers of draws from repeats with one: the variance is inversely proportional."""
    spread = _spread_of_repeats(logs)
    return [spread * float(np.sqrt(estimator.calibration_draws / draws)) for draws in candidates]


def _spread_of_repeats(logs: np.ndarray) -> float:
    """Return the spread, from the rate at which estimates replace others, stored in proportion to their sizes."""
    if not np.isfinite(logs.max()):
        return np.inf
    stored = np.exp(logs - logs.max())
    accepted = np.minimum(1.0, np.exp(logs[:, None] - np.where(np.isfinite(logs), logs, np.inf)))
    np.fill_diagonal(accepted, 0.0)
    return _spread_for(float(stored @ accepted.sum(axis=0)) / float(stored.sum() * (len(logs) - 1)))


def _spread_with(
    rng: np.random.Generator, estimator: Calibrated, draws: int, ready: Ready, particles: np.ndarray, logs: np.ndarray
) -> float:
    """Return the spread of importance sampling's log-estimate if stored estimates hold particles from the posterior.

    Particles are picked in proportion to the estimates that they come from, whose logarithms are `logs`.
    """
    if not np.isfinite(logs.max()):
        return np.inf
    q, likelihood = ready.approximation, ready.likelihood
    paired = estimator.antithetic and draws > 1
    held = [q.log_weights(likelihood, particles)]
    if paired:
        held.append(q.log_weights(likelihood, 2.0 * q.mean - particles))
    log_weights = _pool(rng, estimator, ready, draws)
    if not np.isfinite(log_weights.max()):
        return np.inf
    groups = log_weights[: len(log_weights) // draws * draws].reshape(-1, draws)
    fresh = log_mean_exp(groups)
    rest = np.broadcast_to(groups[:, len(held) :], (len(particles), len(groups), draws - len(held)))
    known = np.broadcast_to(np.stack(held, axis=1)[:, None], (len(particles), len(groups), len(held)))
    stored = log_mean_exp(np.concatenate([known, rest], axis=2))
    accepted = np.exp(np.minimum(0.0, fresh[:, None, None] - stored)).mean(axis=(0, 2))
    return _spread_for(float(np.average(accepted, weights=np.exp(logs - logs.max()))))


def _pairs_adjacent(log_weights: np.ndarray, antithetic: bool) -> np.ndarray:
    """Put mirror images side by side, so that groups of consecutive weights hold whole pairs."""
    return log_weights.reshape(2, -1).T.ravel() if antithetic else log_weights


def _spread_of_groups(log_weights: np.ndarray, draws: int, paired: bool, rng: np.random.Generator) -> float:
    """Return the spread of the log-estimate, from the rate at which fresh estimates replace stored ones at one theta.

    A chain's stored estimate holds a particle from the posterior, whose weight may be far larger than any that a few
    draws from q show; groups of fresh weights alone would miss that tail. For normal errors of the log-estimate with
    standard deviation s the acceptance rate is 2 Phi(-s / sqrt(2)), which is solved for s.
    """
    if not np.isfinite(log_weights.max()):
        return np.inf
    groups = log_weights[: len(log_weights) // draws * draws].reshape(-1, draws)
    fresh = log_mean_exp(groups)
    weights = np.exp(log_weights - log_weights.max())
    held = groups.copy()
    chosen = rng.choice(len(log_weights), size=len(groups), p=weights / weights.sum())
    held[:, 0] = log_weights[chosen]
    if paired:
        # The particle's mirror image is kept too; partners differ in the last bit of their index.
        held[:, 1] = log_weights[chosen ^ 1]
    stored = log_mean_exp(held)
    return _spread_for(float(np.exp(np.minimum(0.0, fresh[:, None] - stored[None, :])).mean()))


def _spread_for(acceptance: float) -> float:
    """Return the standard deviation of normal errors that leads to an acceptance rate."""
    return float(-np.sqrt(2.0) * ndtri(0.5 * acceptance))
