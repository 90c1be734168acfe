"""P = a Cholesky factorization of K with random pivots, + D: the default.

Chen, Epperly, Tropp and Webber (2024), Randomly pivoted Cholesky: each pivot is drawn with the probability of its
variance given those before it, so that neither outliers (as by the largest pivots) nor dense regions (as by uniform
draws, Nystrom's) take all of them. Drawn in blocks, as in their algorithm 4 of the accelerated version: proposals of
the same variances, and a scan keeps those that their remaining variances let it accept.
"""

from __future__ import annotations

import numpy as np

from pmgp.core.iterative.preconditioners.base import Kernel
from pmgp.core.iterative.preconditioners.low_rank import LowRank
from pmgp.core.iterative.preconditioners.nystrom import nystrom

# A share of the largest variance; a remainder below it is rounding.
NEGLIGIBLE = 1e-10
# Pivots that are proposed at a time.
PROPOSED = 32


def random_pivots(kernel: Kernel, noise: np.ndarray, rank: int, rng: np.random.Generator) -> LowRank:
    """Precondition by random pivots.

    Parameters
    ----------
    kernel : Kernel
    noise : (n,) array
        Added to the diagonal of K, positive.
    rank : int
        At most so many pivots.
    rng : numpy.random.Generator
    """
    return nystrom(kernel, noise, random_points(kernel, rank, rng))


def random_points(kernel: Kernel, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Draw points, each with a probability proportional to its variance given those before it.

    Parameters
    ----------
    kernel : Kernel
    rank : int
    rng : numpy.random.Generator

    Returns
    -------
    (m,) array of int, m at most `rank`
        All different; fewer than `rank` if the remaining variance is rounding error.
    """
    variance = kernel.diagonal().astype(float)
    left, largest = variance.copy(), variance.max()
    factor, points = np.empty((rank, kernel.size)), np.empty(0, dtype=np.intp)
    while (found := len(points)) < rank and left.max() > NEGLIGIBLE * largest:
        proposed = rng.choice(kernel.size, size=min(PROPOSED, rank - found), p=left / left.sum())
        accepted, lower = _scanned(rng, kernel, proposed, factor[:found], NEGLIGIBLE * largest)
        rows = kernel.columns(accepted).T - factor[:found, accepted].T @ factor[:found]
        factor[found : found + len(accepted)] = np.linalg.solve(lower, rows)
        left = np.maximum(left - np.square(factor[found : found + len(accepted)]).sum(axis=0), 0.0)
        points = np.append(points, accepted)
        left[points] = 0.0
    return points


def _scanned(
    rng: np.random.Generator, kernel: Kernel, proposed: np.ndarray, factor: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray]:
    """Proposals kept, each with the probability that the others before it leave of its variance; their factor."""
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
