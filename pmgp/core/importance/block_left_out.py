"""The evidence without one of the observations where each depends on one value of each of several latent vectors.

This follows `left_out.py`, with the C latent values f_i of a site in place of one. With N(mu_i, V_i) for their marginal
under q and a share a of the site (b_i, W_i) for the observation, q_-j has the marginal N(c_j, S_j), with

    S_j = (V_i^-1 - a W_i)^-1,  c_j = S_j (V_i^-1 mu_i - a b_i).

A draw from q becomes one from q_-j by f'_i = c_j + T L^-1 (f_i - mu_i), with S_j = T T' and V_i = L L', and the other
values follow: f' = f + Sigma_.i V_i^-1 (f'_i - f_i). Several observations of a site have shares of it in proportion to
the curvature of their terms, over q's standard deviations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.gaussians import BlockApproximation
from pmgp.core.importance.left_out import BLOCK, Terms, log_mean_of_weights
from pmgp.core.numerics.block_matrices import flat, stacked


class _Moves(NamedTuple):
    """How a draw of the site's values moves, for J observations.

    - `roots` (J, C, C): lower Cholesky factors of the marginals V under q
    - `means` (J, C), `left` (J, C, C): c, and the lower Cholesky factors of S
    - `log_ratios` (J,): log of the ratio of the factors' determinants, that of S over that of V
    """

    roots: np.ndarray
    means: np.ndarray
    left: np.ndarray
    log_ratios: np.ndarray


def block_evidence_left_out(q: BlockApproximation, terms: Terms, particles: np.ndarray) -> np.ndarray | None:
    """Return the logs of estimates of p(y_-j|theta) for each observation j: (J,).

    `particles` (draws, size): draws from q; `terms.where` has the site of each observation.

    Returns None where K turns out to be indefinite.
    """
    try:
        moves = _moves(q, terms)
    except np.linalg.LinAlgError:
        return None
    found = np.empty(len(terms.where))
    each = max(1, BLOCK // (len(particles) * max(q.size, len(found))))
    for start in range(0, len(found), each):
        here = slice(start, min(start + each, len(found)))
        found[here] = _moved(q, terms, particles, _Moves(*(part[here] for part in moves)), np.arange(len(found))[here])
    return found


def _moves(q: BlockApproximation, terms: Terms) -> _Moves:
    n, where, roots = q.prior.sites, terms.where, np.linalg.cholesky(q.marginals)
    share = _shares(q, terms, roots)
    mean, linear = (stacked(x, n).T[where] for x in (q.site_mean, q.linear))
    roots = roots[where]
    site = share[:, None, None] * q.precision.blocks[where]
    # In units of q's deviations, which rounds less: I - L' W L, and the root of its inverse.
    inner = np.eye(roots.shape[1]) - roots.swapaxes(1, 2) @ site @ roots
    inverse = np.linalg.inv(inner)
    step = inverse @ (roots.swapaxes(1, 2) @ (site @ mean[:, :, None] - (share[:, None] * linear)[:, :, None]))
    left = roots @ np.linalg.cholesky(inverse)
    ratios = np.log(np.einsum("jcc->jc", left) / np.einsum("jcc->jc", roots)).sum(axis=1)
    return _Moves(roots, mean + (roots @ step)[:, :, 0], left, ratios)


def _shares(q: BlockApproximation, terms: Terms, roots: np.ndarray) -> np.ndarray:
    """Return the share of its site that each observation has, from the factors of q's marginals: (J,)."""
    steps = flat(roots.transpose(2, 1, 0))
    with np.errstate(all="ignore"):
        of_sites = terms.of_sites or terms.log_density
        middle, above, below = (of_sites(q.site_mean + by * steps) for by in (0.0, 1.0, -1.0))
        curvature = np.maximum(2.0 * middle - above - below, 0.0).sum(axis=0)
    total = np.bincount(terms.where, curvature)[terms.where]
    equal = 1.0 / np.bincount(terms.where)[terms.where]
    known = np.isfinite(total) & (total > 0.0)
    return np.divide(curvature, total, out=equal, where=known)


def _moved(q: BlockApproximation, terms: Terms, particles: np.ndarray, moves: _Moves, here: np.ndarray) -> np.ndarray:
    """Return the estimates for some observations: (len(here),)."""
    n, sites = q.prior.sites, terms.where[here]
    own = stacked(q.prior.at_sites(particles), n)[:, :, sites].transpose(2, 1, 0)
    mean = stacked(q.site_mean, n).T[sites][:, :, None]
    standard = np.linalg.solve(moves.roots, own - mean)
    shifts = moves.means[:, :, None] + moves.left @ standard - own
    f = particles + np.einsum("jcp,jcx->jpx", _divided(moves.roots, shifts), _columns(q, sites))
    densities = terms.log_density(f.reshape(-1, q.size)).reshape(*f.shape[:2], -1)
    # Leave out the density of the observation itself, which may be minus infinity.
    densities[np.arange(len(here)), :, here] = 0.0
    g = q.prior.at_sites(f)
    log_ratios = q.log_normalizer + densities.sum(axis=2) - g @ q.linear + 0.5 * q.precision.quadratic(g)
    # N(f'_i|mu_i, V_i) / N(f'_i|c_j, S_j), which is q over q_-j.
    beside = np.linalg.solve(moves.roots, own + shifts - mean)
    exchanged = moves.log_ratios[:, None] + 0.5 * (np.square(standard) - np.square(beside)).sum(axis=1)
    return log_mean_of_weights(log_ratios + exchanged, axis=1)


def _divided(roots: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return V^-1 x from the factor of V: (J, C, C) and (J, C, draws)."""
    return np.linalg.solve(roots.swapaxes(1, 2), np.linalg.solve(roots, x))


def _columns(q: BlockApproximation, sites: np.ndarray) -> np.ndarray:
    """Return the covariances of the values of sites and f under q: (J, C, size)."""
    vectors = q.prior.vectors
    unit = np.zeros((vectors * q.prior.sites, len(sites) * vectors), order="F")
    places = sites[:, None] + q.prior.sites * np.arange(vectors)
    unit[places.ravel(), np.arange(places.size)] = 1.0
    return q.product(q.prior.from_sites(unit)).T.reshape(len(sites), vectors, q.size)
