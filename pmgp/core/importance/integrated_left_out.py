"""The evidence without one of the observations where one latent vector is integrated out.

With f integrated out, p(y_-j|g) = p(y|g) / p(y_j|y_-j, g), and the last is the density of regression's leave-one-out
prediction. So the draws of g that give an estimate of p(y|theta) also give one of each p(y_-j|theta), without moves: an
observation says less about g than about f.

A term is a + s x - c x^2 / 2 in x = f_i - l_i, with l_i the maximum of the sum of the site's terms, and w_i the sum of
their c. With B = I + W^1/2 K W^1/2, beta_i = (B^-1)_ii and alpha = W^1/2 B^-1 W^1/2 (l - m), f_i given g and y has the
variance (1 - beta_i) / w_i and the mean l_i - alpha_i / w_i. Without the site its precision is
w_i beta_i / (1 - beta_i), and its mean times that is the same as with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.estimators.importance import CompletedParticles
from pmgp.core.estimators.integrated_vector import IntegratedVector
from pmgp.core.importance.left_out import Terms, log_mean_of_weights
from pmgp.core.numerics import linalg

# Below this product of a site's precision and the prior's variance, 1 - beta_i would be lost in rounding.
SMALL = 1e-8


def integrated_evidence_left_out(estimate: CompletedParticles, terms: Terms) -> np.ndarray:
    """Return the logs of estimates of p(y_-j|theta) for each observation j: (J,).

    `estimate`: one of p(y|theta), whose particles are completed by an `IntegratedVector`; `terms.where` has the site of
    each observation.
    """
    integrated: Any = estimate.given
    # Where a weight is zero, terms may not be known.
    possible = np.isfinite(estimate.log_weights)
    left_out = np.full((len(possible), len(terms.where)), -np.inf)
    densities = _log_predictive(integrated, estimate.weighted.particles[possible], terms)
    left_out[possible] = estimate.log_weights[possible, None] - densities
    return log_mean_of_weights(left_out, axis=0)


def _log_predictive(integrated: IntegratedVector, f: np.ndarray, terms: Terms) -> np.ndarray:
    """Return log p(y_j|y_-j, g) for the other vectors of each row: (k, C n) to (k, J)."""
    sites = integrated.quadratic(f)
    width = 1.0 / np.sqrt(sites.precision)
    rows = np.stack([f, f, f])
    for row, by in zip(rows, (0.0, 1.0, -1.0), strict=True):
        row[:, integrated.block] = sites.location + by * width
    at, above, below = terms.log_density(rows.reshape(3 * len(f), -1)).reshape(3, len(f), -1)
    whole, width = sites.precision[:, terms.where], width[:, terms.where]
    slope, precision = (above - below) / (2.0 * width), (2.0 * at - above - below) / np.square(width)
    # Alone at its site, a term has its maximum there, and no other term is left: what rounding adds may be large.
    alone = np.bincount(terms.where)[terms.where] == 1
    sums = np.array([np.bincount(terms.where, row) for row in precision])[:, terms.where]
    slope, rest = np.where(alone, 0.0, slope), np.where(alone, 0.0, np.maximum(sums - precision, 0.0))
    found = [_given_others(integrated, *one) for one in zip(sites.precision, sites.location, strict=True)]
    cavity, linear = (np.array(part)[:, terms.where] for part in zip(*found, strict=True))
    total, left, left_linear = cavity + whole, cavity + rest, linear - slope
    return at + 0.5 * (np.log(left / total) + linear**2 / total - left_linear**2 / left)


def _given_others(integrated: IntegratedVector, precision: np.ndarray, location: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the precision of each f_i given g and the other sites, and the mean less l_i times it: two (n,) arrays."""
    prior, root = integrated.prior, np.sqrt(precision)
    factor = integrated.factor(precision)
    alpha = root * linalg.cholesky_solve(factor, root * (location - prior.mean))
    scaled = precision * prior.variance
    beta = linalg.inverse_diagonal(factor)
    share = np.where(scaled > SMALL, 1.0 - beta, scaled)
    return precision * beta / share, -alpha / share
