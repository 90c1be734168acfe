"""Expectation propagation with a site for each latent value: sweeps over all sites until q matches."""

from __future__ import annotations

from enum import Enum

import numpy as np

from pmgp.core.approximations.moment_matching import LARGEST_SHARE, MatchedSites, Terms, matched_sites
from pmgp.core.gaussians import SMALLEST_PRECISION, ConditionedPrior, Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.compiled.outcomes import INDEFINITE, MATCHED, NOT_CONVERGED

# Smallest fraction of the way to the matching sites that a sweep moves. Sites that overshoot together, such as those of
# duplicate inputs, converge if they overshoot by less than a factor of twenty.
SMALLEST_STEP = 0.05


class Failure(Enum):
    """The reason why sweeps gave no q."""

    NOT_CONVERGED = NOT_CONVERGED
    INDEFINITE = INDEFINITE


def propagated_from(
    prior: Prior, likelihood: Likelihood, start: np.ndarray, tolerance: float, max_sweeps: int, largest: float
) -> Posterior | Failure:
    """Sweep from guessed sites (b, log w), one (2n,) array: see :func:`propagated`."""
    conditioned = prior.conditioning()
    sites = _sites_of(start, conditioned.precisions)
    reached = conditioned.swept(likelihood, _settings(tolerance, max_sweeps, largest), sites)
    if reached is not None:
        if reached.status != MATCHED:
            return Failure(reached.status)
        return conditioned.approximation(reached.log_evidence, reached.iterations)
    # A likelihood whose sweeps are compiled is positive everywhere.
    if not np.isfinite(likelihood.log_likelihood(prior.mean)):
        return Failure.NOT_CONVERGED
    if not conditioned.on(*sites):
        return Failure.INDEFINITE
    return propagated(conditioned, likelihood, tolerance, max_sweeps, largest)


def propagated(
    conditioned: ConditionedPrior,
    likelihood: Terms,
    tolerance: float,
    max_sweeps: int,
    largest: float = np.inf,
    iterations: int = 0,
) -> Posterior | Failure:
    """Sweep until a sweep would move q by less than a tolerance, in nats.

    `conditioned`: conditioned on the sites to start from; `likelihood`: any terms that factorize over f; `largest`: the
    search fails if a sweep moves q by more nats than this; `iterations`: number of earlier iterations, to which those
    made here are added.
    """
    reached = conditioned.swept(likelihood, _settings(tolerance, max_sweeps, largest))
    if reached is not None:
        if reached.status != MATCHED:
            return Failure(reached.status)
        return conditioned.approximation(reached.log_evidence, iterations + reached.iterations)
    step, last = 1.0, None
    for sweep in range(1, max_sweeps + 1):
        matched = matched_sites(conditioned, likelihood)
        if matched is None:
            return Failure.INDEFINITE
        change = np.array([matched.linear - conditioned.linear, matched.precision - conditioned.precision])
        if last is not None:
            step = _secant_step(step * last, last - change, conditioned.mean, matched.marginal_variance)
        divergence = _move(conditioned, matched, step * change)
        if divergence is None:
            return Failure.INDEFINITE
        # The divergence is nearly quadratic in the step; a short step must not count as a small change.
        divergence /= step**2
        if divergence < tolerance:
            return conditioned.approximation(matched.log_evidence, iterations + sweep)
        if not divergence < largest:
            break
        last = change
    return Failure.NOT_CONVERGED


def _settings(tolerance: float, max_sweeps: int, largest: float) -> tuple[float, ...]:
    """Return the settings as a kernel takes them."""
    return tolerance, largest, SMALLEST_STEP, SMALLEST_PRECISION, LARGEST_SHARE, max_sweeps


def _sites_of(start: np.ndarray, precisions: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Copy b and w, within bounds, out of a start: (2, n)."""
    sites = start.reshape(2, -1).copy()
    precision, (smallest, largest) = sites[1], precisions
    # Guesses of log w may be so large that w overflows.
    np.clip(precision, np.log(smallest), np.log(largest), out=precision)
    np.exp(precision, out=precision)
    return sites


def _secant_step(moved: np.ndarray, reduced: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> float:
    """Return the length of the next step, given how much the last one reduced the change (Barzilai and Borwein 1988).

    It is <s, r> / <r, r> for the last step s and the reduction r, in the metric of the marginal divergences that a
    change of the sites causes. If sites overshoot together, r exceeds s, and the steps become shorter.

    `moved`, `reduced` (2, n): changes of b and w; `mean`, `variance` (n,): moments of q's marginals.
    """
    s, r = _standardized(moved, mean, variance), _standardized(reduced, mean, variance)
    square = float(r @ r)
    return float(np.clip(s @ r / square, SMALLEST_STEP, 1.0)) if square > 0.0 else 1.0


def _standardized(change: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    linear, precision = change
    return np.concatenate([np.sqrt(variance) * (linear - precision * mean), variance * precision / np.sqrt(2.0)])


def _move(conditioned: ConditionedPrior, matched: MatchedSites, change: np.ndarray) -> float | None:
    """Change the sites, and return how far q moves in nats, or None where B is indefinite.

    With changes db, dw and dmu, and v the variances of the old q, the Kullback-Leibler divergence of the new q from it
    is [v' dw - log|B_new| + log|B_old| + dmu' (db - dw mu_old)] / 2: no inverse is needed.
    """
    db, dw = change
    old = conditioned.mean
    if not conditioned.on(conditioned.linear + db, np.maximum(conditioned.precision + dw, conditioned.precisions[0])):
        return None
    spread = float(matched.marginal_variance @ dw) - conditioned.log_determinant + matched.log_determinant
    return 0.5 * (spread + float((conditioned.mean - old) @ (db - dw * old)))
