"""P = a Cholesky factorization of K with random pivots, + D: the default.

Each pivot is drawn in proportion to its variance given those before it (Chen, Epperly, Tropp and Webber 2024, Randomly
pivoted Cholesky). So outliers do not take all of them, as with the largest pivots, nor do dense regions, as with
uniform draws. Pivots are drawn in blocks, as in algorithm 4 of the accelerated version: proposals come from the same
variances, and a scan accepts them with probabilities from the variances that remain.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import LowRank
from pmgp.core.iterative.preconditioners.nystrom import nystrom

# A remaining variance that is smaller, relative to the largest one, is a rounding error.
NEGLIGIBLE = 1e-10
# The number of pivots that are proposed together.
PROPOSED = 32


def random_pivots(kernel: Kernel, noise: np.ndarray, rank: int, rng: np.random.Generator) -> LowRank:
    """Return the preconditioner of random pivots.

    `noise` (n,): positive numbers that are added to the diagonal of K; `rank`: largest number of pivots.
    """
    return nystrom(kernel, noise, random_points(kernel, rank, rng))


def random_points(kernel: Kernel, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Return points, each drawn with a probability proportional to its variance given those before it.

    The points are all different; there are fewer than `rank` if the remaining variance is a rounding error.
    """
    return partial_cholesky(kernel, rank, rng)[0]


def partial_cholesky(
    kernel: Kernel, rank: int, rng: np.random.Generator, negligible: float = NEGLIGIBLE
) -> tuple[np.ndarray, np.ndarray]:
    """Return pivots (m,), and F (m, n), for which K - F'F has the remaining variances as its diagonal.

    They end when `rank` are found, or no remaining variance is above `negligible`, relative to the largest variance.
    """
    variance = kernel.diagonal().astype(float)
    left, largest = variance.copy(), variance.max()
    factor, points = np.empty((rank, kernel.size)), np.empty(0, dtype=np.intp)
    while (found := len(points)) < rank and left.max() > negligible * largest:
        proposed = rng.choice(kernel.size, size=min(PROPOSED, rank - found), p=left / left.sum())
        accepted, lower = _scanned(rng, kernel, proposed, factor[:found], negligible * largest)
        rows = kernel.columns(accepted).T - factor[:found, accepted].T @ factor[:found]
        factor[found : found + len(accepted)] = np.linalg.solve(lower, rows)
        left = np.maximum(left - np.square(factor[found : found + len(accepted)]).sum(axis=0), 0.0)
        points = np.append(points, accepted)
        left[points] = 0.0
    return points, factor[: len(points)]


def _scanned(
    rng: np.random.Generator, kernel: Kernel, proposed: np.ndarray, factor: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the accepted proposals and their factor; probabilities are ratios of remaining to original variances."""
    inner = kernel.columns(proposed)[proposed] - factor[:, proposed].T @ factor[:, proposed]
    before = inner.diagonal().copy()
    kept: list[int] = []
    lower = np.zeros_like(inner)
    for i in range(len(proposed)):
        pivot = inner[i, i]
        if rng.random() * before[i] < pivot and pivot > least:
            column = inner[:, i] / np.sqrt(pivot)
            lower[:, len(kept)] = column
            inner -= np.outer(column, column)
            kept.append(i)
    return proposed[kept], lower[np.ix_(kept, range(len(kept)))]
