"""The evidence without one of the observations, from the same draws as the evidence with all of them.

Let q_-i have the cavity N(c_i, s_i) of site i instead of q's marginal N(mu_i, v_i), and the same distribution of the
other values given f_i as q. It approximates p(f|y_-i, theta) as q approximates p(f|y, theta). A draw from q becomes a
draw from q_-i by a shift of f_i, which the other values follow: f' = f + Sigma_i / v_i (f'_i - f_i), with f'_i = c_i +
(s_i / v_i)^(1/2) (f_i - mu_i). So the particles of an estimate of p(y|theta) also give an unbiased estimate of each
p(y_-i|theta).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.special import logsumexp

from pmgp.core.approximations.moment_matching import Cavities, cavities
from pmgp.core.gaussians import Posterior

# Size of an array of moved particles that fits the cache.
BLOCK = 100_000


class SiteDensities(Protocol):
    """A likelihood that knows its terms one by one."""

    def log_density(self, f: np.ndarray) -> np.ndarray:
        """Return log p(y_i|f_i): (draws, n) -> (draws, n)."""


def log_evidence_left_out(q: Posterior, likelihood: SiteDensities, particles: np.ndarray) -> np.ndarray | None:
    """Return the logs of estimates of p(y_-i|theta) for each i: (n,).

    `particles` (draws, n): draws from q; the estimates are unbiased if these are independent of everything else.

    Returns None where K turns out to be indefinite.
    """
    cavity = cavities(q)
    if cavity is None:
        return None
    slopes = q.regressions(cavity.marginal_variance)
    each = max(1, BLOCK // particles.size)
    parts = [
        _of_sites(q, likelihood, particles, cavity, slopes, np.arange(start, min(start + each, q.size)))
        for start in range(0, q.size, each)
    ]
    return np.concatenate(parts)


def _of_sites(
    q: Posterior,
    likelihood: SiteDensities,
    particles: np.ndarray,
    cavity: Cavities,
    slopes: np.ndarray,
    sites: np.ndarray,
) -> np.ndarray:
    """Return the estimates for some of the sites: (sites,)."""
    mean, variance = q.mean[sites, None], cavity.marginal_variance[sites, None]
    scale = np.sqrt(cavity.variance[sites, None] / variance)
    own = particles[:, sites].T
    moved = cavity.mean[sites, None] + scale * (own - mean)
    f = particles + (moved - own)[:, :, None] * slopes[sites, None, :]
    densities = likelihood.log_density(f.reshape(-1, q.size)).reshape(f.shape)
    # Leave out the density of the site itself, which may be minus infinity.
    densities[np.arange(len(sites)), :, sites] = 0.0
    log_ratios = densities.sum(axis=2) - f @ q.linear + 0.5 * np.square(f) @ q.precision
    # N(f'_i|mu_i, v_i) / N(f'_i|c_i, s_i), which is q over q_-i.
    exchanged = np.log(scale) - 0.5 * np.square(moved - mean) / variance + 0.5 * np.square(own - mean) / variance
    log_weights = q.log_normalizer + log_ratios + exchanged
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    return logsumexp(log_weights, axis=1) - np.log(len(particles))
