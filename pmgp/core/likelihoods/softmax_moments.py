"""Moments of softmax terms of more than three classes, at nodes about the modes of the tilted densities.

Nodes about q's marginal would feed back: where it is narrower than the tilted density, the moments found are too narrow
as well, and the next sweep narrows q. The mode and half of the curvature there depend on the cavity alone, and the
nodes are then at least as wide as the tilted density nearly everywhere.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.likelihoods.block_moments import contrasts_of, placed_nodes
from pmgp.core.likelihoods.blocks import BlockMoments

__all__ = ["softmax_moments", "tilted_modes"]

# Sites whose nodes are handled at a time, so that they stay in the processor's cache.
SITES = 8
# A third derivative of log sum exp is at most so many times the second one in the same direction.
SELF_CONCORDANCE = np.sqrt(2.0)
# Nodes need not be placed better than to this part of what a step of Newton's method is safe for.
NEAR = 0.1
MAX_STEPS = 30


def softmax_moments(counts: np.ndarray, mean: np.ndarray, covariance: np.ndarray, start: np.ndarray) -> BlockMoments:
    """Moments of prod_c pi_c^counts_c times a normal distribution, and the expected curvature, site by site.

    Parameters
    ----------
    counts : (C, n) array
    mean, covariance : (n, d) and (n, d, d) array
        Of the C - 1 contrasts.
    start : (n, d) array
        Where modes are searched from.

    Returns
    -------
    BlockMoments
        Without the constant of the counts in the log normalizer.
    """
    mode, width = tilted_modes(counts, mean, covariance, start)
    parts = [slice(first, first + SITES) for first in range(0, len(mean), SITES)]
    found = [_moments(counts[:, i], mean[i], covariance[i], (mode[i], width[i])) for i in parts]
    return BlockMoments(*(np.concatenate(each) for each in zip(*found, strict=True)))


def _moments(
    counts: np.ndarray, mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray]
) -> BlockMoments:
    placed = placed_nodes(mean, covariance, near)
    odds = contrasts_of(len(counts)).T @ placed.points
    odds -= odds.max(axis=1, keepdims=True)
    log_density = np.einsum("ci,ick->ik", counts, odds)
    np.exp(odds, out=odds)
    total, trials = odds.sum(axis=1), counts.sum(axis=0)
    log_density -= trials[:, None] * np.log(total)
    moments, weights = placed.moments(log_density)
    # Of products of two probabilities.
    expected = ((weights / np.square(total))[:, None, :] * odds) @ odds.swapaxes(1, 2)
    return moments._replace(curvature=trials[:, None, None] * _with_zero_sums(expected))


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
