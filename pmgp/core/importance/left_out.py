"""The evidence without one of the observations, from the same draws as the evidence with all of them.

Let q_-j have, in place of q's marginal N(mu_i, v_i) of the value f_i that observation j depends on, the density
N(c_j, s_j) that is left when the observation's share of the site is taken out: the cavity, if the value has no other
observation. The other values have the same distribution given f_i as in q. So q_-j approximates p(f|y_-j, theta) as q
approximates p(f|y, theta). A draw from q becomes a draw from q_-j by a shift of f_i, which the other values follow:
f' = f + Sigma_i / v_i (f'_i - f_i), with f'_i = c_j + (s_j / v_i)^(1/2) (f_i - mu_i). So the particles of an estimate
of p(y|theta) also give an unbiased estimate of each p(y_-j|theta).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from pmgp.core.approximations.moment_matching import cavities
from pmgp.core.gaussians import Posterior

# Size of an array of moved particles that fits the cache.
BLOCK = 100_000


class Terms(NamedTuple):
    """The observations one by one.

    - `log_density`: function from f, (draws, n), to log p(y_j|f), (draws, J)
    - `where` (J,) of int: the value of f that each depends on
    """

    log_density: Callable[[np.ndarray], np.ndarray]
    where: np.ndarray


class _Moves(NamedTuple):
    """Where draws of one value of f are moved if one of its observations is left out.

    - `mean`, `variance` (n,): those of q's marginals
    - `left_mean`, `left_variance` (n,): those of q_-j
    - `slopes` (n, n): how the other values follow
    """

    mean: np.ndarray
    variance: np.ndarray
    left_mean: np.ndarray
    left_variance: np.ndarray
    slopes: np.ndarray


def log_evidence_left_out(q: Posterior, terms: Terms, particles: np.ndarray) -> np.ndarray | None:
    """Return the logs of estimates of p(y_-j|theta) for each observation j: (J,).

    `particles` (draws, n): draws from q; the estimates are unbiased if these are independent of everything else.

    Returns None where K turns out to be indefinite.
    """
    moves = _moves(q, np.bincount(terms.where, minlength=q.size))
    if moves is None:
        return None
    found = np.empty(len(terms.where))
    sites = np.unique(terms.where)
    each = max(1, BLOCK // (len(particles) * max(q.size, len(found))))
    for start in range(0, len(sites), each):
        _of_sites(q, terms, particles, moves, sites[start : start + each], found)
    return found


def _moves(q: Posterior, observations: np.ndarray) -> _Moves | None:
    """Return the moves, given the number of observations of each value."""
    cavity = cavities(q)
    if cavity is None:
        return None
    variance = cavity.marginal_variance
    share = 1.0 / np.maximum(observations, 1)
    precision = 1.0 / variance - share * q.precision
    mean = (q.mean / variance - share * q.linear) / precision
    # The cavity of a whole site is the approximation's own, which may differ from this by rounding.
    whole = observations <= 1
    left_mean, left_variance = np.where(whole, cavity.mean, mean), np.where(whole, cavity.variance, 1.0 / precision)
    return _Moves(q.mean, variance, left_mean, left_variance, q.regressions(variance))


def _of_sites(
    q: Posterior, terms: Terms, particles: np.ndarray, moves: _Moves, sites: np.ndarray, found: np.ndarray
) -> None:
    """Write the estimates for the observations of some values of f into `found`."""
    mean, variance = moves.mean[sites, None], moves.variance[sites, None]
    scale = np.sqrt(moves.left_variance[sites, None] / variance)
    own = particles[:, sites].T
    moved = moves.left_mean[sites, None] + scale * (own - mean)
    f = particles + (moved - own)[:, :, None] * moves.slopes[sites, None, :]
    # N(f'_i|mu_i, v_i) / N(f'_i|c_j, s_j), which is q over q_-j.
    exchanged = np.log(scale) - 0.5 * np.square(moved - mean) / variance + 0.5 * np.square(own - mean) / variance
    log_ratios = q.log_normalizer - f @ q.linear + 0.5 * np.square(f) @ q.precision + exchanged
    densities = terms.log_density(f.reshape(-1, q.size)).reshape(*f.shape[:2], -1)
    place = np.full(q.size, -1)
    place[sites] = np.arange(len(sites))
    here = np.flatnonzero(place[terms.where] >= 0)
    at = place[terms.where[here]]
    log_weights = _without_each(densities, at, here) + log_ratios[at]
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    found[here] = logsumexp(log_weights, axis=1) - np.log(len(particles))


def _without_each(densities: np.ndarray, at: np.ndarray, here: np.ndarray) -> np.ndarray:
    """Return sums over all observations but one, (len(here), draws), some of which may be minus infinity.

    `densities` (sites, draws, J); `here`: the observations that are left out; `at`: their places along the first axis.
    """
    impossible = np.isneginf(densities)
    possible = np.where(impossible, 0.0, densities)
    sums = possible.sum(axis=2)[at] - possible[at, :, here]
    others = impossible.sum(axis=2)[at] - impossible[at, :, here]
    return np.where(others > 0, -np.inf, sums)
