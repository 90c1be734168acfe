"""The evidence without one of the observations, from the same draws as the evidence with all of them.

Let q_-j have, in place of q's marginal N(mu_i, v_i) of the value f_i that observation j depends on, the density
N(c_j, s_j) that is left when the observation's share of the site is taken out: the cavity, if the value has no other
observation. The other values have the same distribution given f_i as in q. So q_-j approximates p(f|y_-j, theta) as q
approximates p(f|y, theta). A draw from q becomes a draw from q_-j by a shift of f_i, which the other values follow:
f' = f + Sigma_i / v_i (f'_i - f_i), with f'_i = c_j + (s_j / v_i)^(1/2) (f_i - mu_i). So the particles of an estimate
of p(y|theta) also give an unbiased estimate of each p(y_-j|theta).

Several observations of a value have shares of its site in proportion to the curvature of their terms, over q's standard
deviation. An observation that hardly changes q is left out without a shift, so that many of them share their draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pmgp.core.approximations.moment_matching import Cavities, cavities
from pmgp.core.gaussians import Posterior

# Size of an array of moved particles that fits the cache.
BLOCK = 100_000
# An observation is left out without a shift if its share of the precision, times the variance, is at most this, and so
# is the variance of its term's linear part.
SMALL = 0.05


class Terms(NamedTuple):
    """The observations one by one.

    - `log_density`: function from f, (draws, n), to log p(y_j|f), (draws, J)
    - `where` (J,) of int: the value of f that each depends on, or the site, with one value of each latent vector
    - `of_sites`: the first function given the values of all sites, (draws, C n), if these are not f
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    where: np.ndarray
    of_sites: Callable[[np.ndarray], np.ndarray] | None = None


class _Left(NamedTuple):
    """The marginal of f_i in q_-j: `mean` and `variance`, and whether it differs much from that in q, (J,) each."""

    mean: np.ndarray
    variance: np.ndarray
    differs: np.ndarray


def log_evidence_left_out(q: Posterior, terms: Terms, particles: np.ndarray) -> np.ndarray | None:
    """Return the logs of estimates of p(y_-j|theta) for each observation j: (J,).

    `particles` (draws, n): draws from q; the estimates are unbiased if these are independent of everything else.

    Returns None where K turns out to be indefinite.
    """
    cavity = cavities(q)
    if cavity is None:
        return None
    left = _left(q, terms, cavity)
    slopes = q.regressions(cavity.marginal_variance)
    found = _unmoved(q, terms, particles)
    moved = np.flatnonzero(left.differs)
    each = max(1, BLOCK // (len(particles) * max(q.size, len(found))))
    for start in range(0, len(moved), each):
        here = moved[start : start + each]
        found[here] = _moved(q, terms, particles, cavity.marginal_variance, slopes, left, here)
    return found


def _left(q: Posterior, terms: Terms, cavity: Cavities) -> _Left:
    """Return what is left of q's marginals without each observation's share of its site."""
    where, variance = terms.where, cavity.marginal_variance
    deviation = np.sqrt(variance)
    with np.errstate(all="ignore"):
        low, middle, high = terms.log_density(q.mean + deviation * np.array([[-1.0], [0.0], [1.0]]))
        slope = (high - low) / (2.0 * deviation[where])
        curvature = np.maximum((2.0 * middle - high - low) / variance[where], 0.0)
    slopes, curvatures = (np.bincount(where, each, q.size)[where] for each in (slope, curvature))
    # Where the shares are not known, the whole site is taken out.
    known = np.isfinite(slopes) & np.isfinite(curvatures) & (curvatures > 0.0)
    share = np.divide(curvature, curvatures, out=np.ones(len(where)), where=known)
    own = np.where(known, slope - share * slopes, 0.0)
    mean, variance, precision, linear = (each[where] for each in (q.mean, variance, q.precision, q.linear))
    left_precision = 1.0 / variance - share * precision
    left_mean = (mean / variance - share * linear - own) / left_precision
    # The cavity is the approximation's own, which may differ from this by rounding.
    whole = share == 1.0
    differs = whole | (share * precision * variance > SMALL) | ~(np.square(slope) * variance <= SMALL)
    return _Left(
        np.where(whole, cavity.mean[where], left_mean),
        np.where(whole, cavity.variance[where], 1.0 / left_precision),
        differs,
    )


def _unmoved(q: Posterior, terms: Terms, particles: np.ndarray) -> np.ndarray:
    """Return the estimates for all observations with q in place of q_-j: (J,)."""
    densities = terms.log_density(particles)
    none = np.zeros((len(particles), 1))
    # Sums of the terms before and after each: a difference of sums would lose what is small beside the own term.
    before = np.cumsum(np.hstack([none, densities[:, :-1]]), axis=1)
    after = np.cumsum(np.hstack([none, densities[:, :0:-1]]), axis=1)[:, ::-1]
    ratios = q.log_normalizer - particles @ q.linear + 0.5 * np.square(particles) @ q.precision
    return log_mean_of_weights(before + after + ratios[:, None], axis=0)


def _moved(
    q: Posterior,
    terms: Terms,
    particles: np.ndarray,
    variances: np.ndarray,
    slopes: np.ndarray,
    left: _Left,
    here: np.ndarray,
) -> np.ndarray:
    """Return the estimates for some observations, with draws that are moved: (len(here),)."""
    sites = terms.where[here]
    mean, variance = q.mean[sites, None], variances[sites, None]
    scale = np.sqrt(left.variance[here, None] / variance)
    own = particles[:, sites].T
    moved = left.mean[here, None] + scale * (own - mean)
    f = particles + (moved - own)[:, :, None] * slopes[sites, None, :]
    densities = terms.log_density(f.reshape(-1, q.size)).reshape(*f.shape[:2], -1)
    # Leave out the density of the observation itself, which may be minus infinity.
    densities[np.arange(len(here)), :, here] = 0.0
    log_ratios = q.log_normalizer + densities.sum(axis=2) - f @ q.linear + 0.5 * np.square(f) @ q.precision
    # N(f'_i|mu_i, v_i) / N(f'_i|c_j, s_j), which is q over q_-j.
    exchanged = np.log(scale) - 0.5 * np.square(moved - mean) / variance + 0.5 * np.square(own - mean) / variance
    return log_mean_of_weights(log_ratios + exchanged, axis=1)


def log_mean_of_weights(log_weights: np.ndarray, axis: int) -> np.ndarray:
    """Return the logs of means of weights, which are zero where their logs are not known."""
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    return logsumexp(log_weights, axis=axis) - np.log(log_weights.shape[axis])
