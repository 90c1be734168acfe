"""Moments of softmax terms; with more than three classes, at nodes about the modes of the tilted densities.

With more than three classes, nodes about q's marginal would feed back: if it is narrower than the tilted density, the
moments are too narrow as well, and the next sweep narrows q. The mode, and half of the curvature there, depend on the
cavity alone, and the nodes are then at least as wide as the tilted density nearly everywhere.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.likelihoods.block_moments import (
    PlacedNodes,
    contrasts_of,
    log_ratio,
    normal_nodes,
    normalized,
    pairs,
    placed_nodes,
)
from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.numerics.compiled.loading import compiled_or, vectors

__all__ = ["softmax_moments", "tilted_modes"]

# Sites whose nodes are handled at a time, so that they stay in the processor's cache.
SITES = 8
# Bound on the third derivative of log sum exp, relative to the second derivative in the same direction.
SELF_CONCORDANCE = float(np.sqrt(2.0))
# Newton's method stops at this fraction of the step that is safe: nodes need not be placed more accurately.
NEAR = 0.1
MAX_STEPS = 30


def softmax_moments(
    counts: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    near: tuple[np.ndarray, np.ndarray],
    curved: bool = True,
) -> BlockMoments:
    """Moments of prod_c pi_c^counts_c times a normal distribution, and the expected curvature, site by site.

    Parameters
    ----------
    counts : (C, n) array
    mean, covariance : (n, d) and (n, d, d) array
        Moments of the C - 1 contrasts.
    near : pair of arrays of the same shapes
        Moments of normals about which the nodes are placed.
    curved : bool
        Whether to compute the expected curvature.

    Returns
    -------
    BlockMoments
        The log normalizer leaves out the constant of the counts.

    Raises
    ------
    numpy.linalg.LinAlgError
        If a covariance is not positive definite.
    """
    (classes, n), d = counts.shape, mean.shape[1]
    nodes, mass = normal_nodes(d)
    written = [np.empty(shape) for shape in (n, (n, d), (n, d * d), (n if curved else 0, classes**2))]
    known = vectors(counts.T, contrasts_of(classes), *_as_rows(mean, covariance), *_as_rows(*near))
    if not compiled_or(_tilted, "softmax.tilted")(*known, nodes, log_ratio(nodes, mass), *written):
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    log_normalizer, tilted_mean, tilted_covariance, products = written
    expected = products.reshape(n, classes, classes) if curved else None
    return BlockMoments(tilted_mean, tilted_covariance.reshape(n, d, d), log_normalizer, expected)


def _as_rows(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays as kernels take them: (n, d) and (n, d d)."""
    return mean, covariance.reshape(len(mean), -1)


def _tilted(
    counts: np.ndarray,
    contrasts: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    center: np.ndarray,
    width: np.ndarray,
    nodes: np.ndarray,
    log_mass: np.ndarray,
    log_normalizer: np.ndarray,
    tilted_mean: np.ndarray,
    tilted_covariance: np.ndarray,
    curvature: np.ndarray,
) -> bool:
    n, d = mean.shape
    square = (n, d, d)
    try:
        placed = placed_nodes(mean, covariance.reshape(square), (center, width.reshape(square)))
    except np.linalg.LinAlgError:
        return False
    of_classes = placed.center @ contrasts, contrasts.T @ placed.spread
    for first in range(0, n, SITES):
        part = slice(first, first + SITES)
        of_sites = counts[part], of_classes[0][part], of_classes[1][part], placed.offset[part], placed.slope[part]
        averages = _averages(*of_sites, nodes, log_mass, curved=len(curvature) > 0)
        moments = PlacedNodes(*(x[part] for x in placed)).restored(*averages[:3])
        log_normalizer[part], tilted_mean[part] = moments.log_normalizer, moments.mean
        tilted_covariance[part] = moments.covariance.reshape(-1, d * d)
        if averages[3] is not None:
            expected = counts[part].sum(axis=1)[:, None, None] * _with_zero_sums(averages[3])
            curvature[part] = expected.reshape(len(expected), -1)
    return True


def _averages(
    counts: np.ndarray,
    offset: np.ndarray,
    slope: np.ndarray,
    standard_offset: np.ndarray,
    standard_slope: np.ndarray,
    nodes: np.ndarray,
    log_mass: np.ndarray,
    curved: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
    """Log of the sum of weights; averages of nodes, of their products, and if `curved` of products of probabilities."""
    trials = counts.sum(axis=1)
    standard = standard_slope @ nodes + standard_offset[:, :, None]
    odds = slope @ nodes + offset[:, :, None]
    odds -= odds.max(axis=1, keepdims=True)
    logs = log_mass + np.einsum("nc,nck->nk", counts, odds) - 0.5 * np.einsum("ndk,ndk->nk", standard, standard)
    np.exp(odds, out=odds)
    total = odds.sum(axis=1)
    weights, log_normalizer = normalized(logs - trials[:, None] * np.log(total))
    products = ((weights / np.square(total))[:, None, :] * odds) @ odds.swapaxes(1, 2) if curved else None
    return log_normalizer, weights @ nodes.T, weights @ pairs(nodes), products


def _with_zero_sums(products: np.ndarray) -> np.ndarray:
    """Diag(pi) - pi pi' from pi pi', whose row sums are pi: (n, C, C)."""
    return np.eye(products.shape[1]) * products.sum(axis=2)[:, None, :] - products


def tilted_modes(
    counts: np.ndarray, mean: np.ndarray, covariance: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Modes of the tilted densities, and covariances with half of the likelihood's curvature: (n, d), (n, d, d).

    Newton's method takes steps as long as the third derivatives allow, and needs no line search (Sun and Tran-Dinh
    2019, Mathematical Programming 178, Theorem 2).

    Raises
    ------
    numpy.linalg.LinAlgError
        If a covariance is not positive definite.
    """
    n, d = mean.shape
    mode, width = np.empty((n, d)), np.empty((n, d * d))
    known = *vectors(counts.T, contrasts_of(len(counts)), *_as_rows(mean, covariance), start), SELF_CONCORDANCE, NEAR
    if not compiled_or(_modes, "softmax.modes")(*known, MAX_STEPS, mode, width):
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    return mode, width.reshape(n, d, d)


def _modes(
    counts: np.ndarray,
    contrasts: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    start: np.ndarray,
    concordance: float,
    near: float,
    max_steps: int,
    mode: np.ndarray,
    width: np.ndarray,
) -> bool:
    trials, g, (n, d) = counts.sum(axis=1)[:, None], start, mean.shape
    try:
        np.linalg.cholesky(covariance.reshape(n, d, d))
        precision = np.linalg.inv(covariance.reshape(n, d, d))
    except np.linalg.LinAlgError:
        return False
    for _ in range(max_steps):
        odds = g @ contrasts
        odds = np.exp(odds - odds.max(axis=1, keepdims=True))
        pi = odds / odds.sum(axis=1, keepdims=True)
        gradient = (counts - trials * pi) @ contrasts.T - np.einsum("nde,ne->nd", precision, g - mean)
        own = contrasts @ (trials[:, :, None] * _with_zero_sums(pi[:, :, None] * pi[:, None, :])) @ contrasts.T
        step = np.linalg.solve(precision + own, gradient[:, :, None])[:, :, 0]
        size = concordance * np.linalg.norm(step, axis=1)
        g = g + (np.log1p(size) / np.maximum(size, np.finfo(float).tiny))[:, None] * step
        if not (size > near).any():
            break
    mode[:], width[:] = g, np.linalg.inv(precision + 0.5 * own).reshape(n, -1)
    return True
