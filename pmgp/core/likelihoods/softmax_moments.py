"""Moments of softmax terms; with more than three classes, at nodes about the modes of the tilted densities.

With more than three classes, nodes about q's marginal would feed back: if it is narrower than the tilted density, the
moments are too narrow as well, and the next sweep narrows q. The mode, and half of the curvature there, depend only
on the cavity, and the nodes are then at least as wide as the tilted density nearly everywhere.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.likelihoods.block_moments import contrasts_of, log_ratio, normal_nodes
from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.numerics.compiled.loading import compiled, vectors

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
    """Return the moments of prod_c pi_c^counts_c times a normal distribution, and the expected curvature, site by site.

    `counts` (C, n); `mean`, `covariance` (n, d) and (n, d, d): moments of the C - 1 contrasts; `near`: moments of
    normals about which the nodes are placed; `curved`: whether to compute the expected curvature.

    The log normalizer leaves out the constant of the counts.

    Raises numpy.linalg.LinAlgError if a covariance is not positive definite.
    """
    (classes, n), d = counts.shape, mean.shape[1]
    nodes, mass = normal_nodes(d)
    written = [np.empty(shape) for shape in (n, (n, d), (n, d * d), (n if curved else 0, classes**2))]
    known = vectors(counts.T, contrasts_of(classes), *_as_rows(mean, covariance), *_as_rows(*near))
    if not compiled("softmax.tilted")(*known, nodes, log_ratio(nodes, mass), *written):
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    log_normalizer, tilted_mean, tilted_covariance, products = written
    expected = products.reshape(n, classes, classes) if curved else None
    return BlockMoments(tilted_mean, tilted_covariance.reshape(n, d, d), log_normalizer, expected)


def _as_rows(mean: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the arrays as kernels take them: (n, d) and (n, d d)."""
    return mean, covariance.reshape(len(mean), -1)


def tilted_modes(
    counts: np.ndarray, mean: np.ndarray, covariance: np.ndarray, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the tilted densities' modes, and covariances with half the likelihood's curvature: (n, d), (n, d, d).

    Newton's method takes steps as long as the third derivatives allow, and needs no line search (Sun and Tran-Dinh
    2019, Mathematical Programming 178, Theorem 2).

    Raises numpy.linalg.LinAlgError if a covariance is not positive definite.
    """
    n, d = mean.shape
    mode, width = np.empty((n, d)), np.empty((n, d * d))
    known = *vectors(counts.T, contrasts_of(len(counts)), *_as_rows(mean, covariance), start), SELF_CONCORDANCE, NEAR
    if not compiled("softmax.modes")(*known, MAX_STEPS, mode, width):
        raise np.linalg.LinAlgError("a covariance is not positive definite")
    return mode, width.reshape(n, d, d)
