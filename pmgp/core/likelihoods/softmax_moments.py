"""Moments of softmax terms; with more than three classes, at nodes about the modes of the tilted densities.

There, nodes about q's marginal would feed back: where it is narrower than the tilted density, the moments found are too
narrow as well, and the next sweep narrows q. The mode and half of the curvature there depend on the cavity alone, and
the nodes are then at least as wide as the tilted density nearly everywhere.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.likelihoods.block_moments import contrasts_of, log_ratio, normal_nodes, normalized, pairs, placed_nodes
from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.numerics.compiled.loading import compiled_or, vectors

__all__ = ["softmax_moments", "tilted_modes"]

# Sites whose nodes are handled at a time, so that they stay in the processor's cache.
SITES = 8
# A third derivative of log sum exp is at most so many times the second one in the same direction.
SELF_CONCORDANCE = np.sqrt(2.0)
# Nodes need not be placed better than to this part of what a step of Newton's method is safe for.
NEAR = 0.1
MAX_STEPS = 30


def softmax_moments(
    counts: np.ndarray, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray]
) -> BlockMoments:
    """Moments of prod_c pi_c^counts_c times a normal distribution, and the expected curvature, site by site.

    Parameters
    ----------
    counts : (C, n) array
    mean, covariance : (n, d) and (n, d, d) array
        Of the C - 1 contrasts.
    near : pair of arrays of the same shapes
        Of normals about which the nodes are placed.

    Returns
    -------
    BlockMoments
        Without the constant of the counts in the log normalizer.
    """
    placed, (classes, n), d = placed_nodes(mean, covariance, near), counts.shape, mean.shape[1]
    nodes, mass = normal_nodes(d)
    of_classes = contrasts_of(classes).T
    known = vectors(
        counts.T,
        placed.center @ of_classes.T,
        (of_classes @ placed.spread).reshape(n, -1),
        placed.offset,
        placed.slope.reshape(n, -1),
        nodes,
        log_ratio(nodes, mass),
    )
    log_normalizer, first, second, products = (np.empty(shape) for shape in (n, (n, d), (n, d * d), (n, classes**2)))
    compiled_or(_averages, "softmax.averages")(*known, log_normalizer, first, second, products)
    expected = counts.sum(axis=0)[:, None, None] * _with_zero_sums(products.reshape(n, classes, classes))
    return placed.restored(log_normalizer, first, second)._replace(curvature=expected)


def _averages(
    counts: np.ndarray,
    offset: np.ndarray,
    slope: np.ndarray,
    standard_offset: np.ndarray,
    standard_slope: np.ndarray,
    nodes: np.ndarray,
    log_mass: np.ndarray,
    *written: np.ndarray,
) -> None:
    for first in range(0, len(counts), SITES):
        part = slice(first, first + SITES)
        sites = counts[part], offset[part], slope[part], standard_offset[part], standard_slope[part]
        for out, found in zip(written, _averages_of(*sites, nodes, log_mass), strict=True):
            out[part] = found


def _averages_of(
    counts: np.ndarray,
    offset: np.ndarray,
    slope: np.ndarray,
    standard_offset: np.ndarray,
    standard_slope: np.ndarray,
    nodes: np.ndarray,
    log_mass: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    n, trials = len(counts), counts.sum(axis=1)
    standard = standard_slope.reshape(n, -1, len(nodes)) @ nodes + standard_offset[:, :, None]
    odds = slope.reshape(n, -1, len(nodes)) @ nodes + offset[:, :, None]
    odds -= odds.max(axis=1, keepdims=True)
    logs = log_mass + np.einsum("nc,nck->nk", counts, odds) - 0.5 * np.einsum("ndk,ndk->nk", standard, standard)
    np.exp(odds, out=odds)
    total = odds.sum(axis=1)
    weights, log_normalizer = normalized(logs - trials[:, None] * np.log(total))
    products = ((weights / np.square(total))[:, None, :] * odds) @ odds.swapaxes(1, 2)
    return log_normalizer, weights @ nodes.T, weights @ pairs(nodes), products.reshape(n, -1)


def _with_zero_sums(products: np.ndarray) -> np.ndarray:
    """Diag(pi) - pi pi' from pi pi', whose rows add up to pi: (n, C, C)."""
    return np.eye(products.shape[1]) * products.sum(axis=2)[:, None, :] - products


def tilted_modes(
    counts: np.ndarray, mean: np.ndarray, covariance: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Modes of the tilted densities, and covariances with half of the likelihood's curvature: (n, d), (n, d, d).

    By Newton's method with steps as long as the third derivatives allow, which needs no line search (Sun and Tran-Dinh
    2019, Mathematical Programming 178, Theorem 2).
    """
    contrasts, precision = contrasts_of(len(counts)), np.linalg.inv(covariance)
    trials, g = counts.sum(axis=0)[:, None], start
    for _ in range(MAX_STEPS):
        odds = g @ contrasts
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        pi = odds / odds.sum(axis=1, keepdims=True)
        gradient = (counts.T - trials * pi) @ contrasts.T - np.einsum("nde,ne->nd", precision, g - mean)
        own = contrasts @ (trials[:, :, None] * _with_zero_sums(pi[:, :, None] * pi[:, None, :])) @ contrasts.T
        step = np.linalg.solve(precision + own, gradient[:, :, None])[:, :, 0]
        size = SELF_CONCORDANCE * np.linalg.norm(step, axis=1)
        g = g + (np.log1p(size) / np.maximum(size, np.finfo(float).tiny))[:, None] * step
        if not (size > NEAR).any():
            break
    return g, np.linalg.inv(precision + 0.5 * own)
