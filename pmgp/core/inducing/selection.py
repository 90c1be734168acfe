"""Choose inducing inputs: centers of clusters, or the points that the others determine least.

The second is the greedy choice of Burt, Rasmussen and van der Wilk (2020), Convergence of sparse variational inference
in Gaussian process regression: a Cholesky factorization of K_ff that takes the largest pivot each time, and so leaves
no point with a large variance given the others.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy.cluster.vq import kmeans2, vq
from scipy.spatial.distance import cdist

# Pivots below this share of the largest prior variance are rounding errors.
NEGLIGIBLE = 1e-10
KMEANS_ITERATIONS = 20


def cluster_centers(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return the centers of m clusters, found with k-means.

    `X` (n, d): with m different rows or more.

    The centers (m, d) are all different. If a cluster has lost all of its points, its center is the point farthest from
    all centers.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        centers, _ = kmeans2(X, dispersed(X, m, rng), iter=KMEANS_ITERATIONS, minit="matrix", missing="warn")
    centers = np.unique(centers, axis=0)
    while len(centers) < m:
        centers = np.vstack([centers, X[np.argmax(vq(X, centers)[1])]])
    return centers


def dispersed(X: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Return m rows, each drawn with a probability in proportion to its squared distance from those before it.

    These are the rows that SciPy's k-means++ draws with the same generator. For each row it computes the distances from
    all earlier ones again: it had not drawn 500 of 60,000 images after five minutes, and this takes half a minute.
    """
    chosen, nearest = [int(rng.integers(len(X)))], np.full(len(X), np.inf)
    while len(chosen) < m:
        nearest = np.minimum(nearest, cdist(X[chosen[-1:]], X, "sqeuclidean")[0])
        drawn = int(np.searchsorted(np.cumsum(nearest / nearest.sum()), rng.uniform()))
        # By rounding, the sum may end below one.
        chosen.append(min(drawn, len(X) - 1))
    return X[chosen]


def largest_conditional_variances(
    variance: np.ndarray, covariance_with: Callable[[int], np.ndarray], m: int
) -> np.ndarray:
    """Return indices of points, each with the largest variance given those before it.

    `variance` (n,): variance of the process at all points; `covariance_with`: from the index of a point to the
    covariances of all points with it, of shape (n,).

    Returns fewer than m indices if the remaining variance is a rounding error.
    """
    left = variance.astype(float).copy()
    rows = np.empty((m, len(left)))
    chosen: list[int] = []
    for step in range(m):
        pivot = int(np.argmax(left))
        if left[pivot] <= NEGLIGIBLE * variance.max():
            break
        done = rows[:step]
        rows[step] = (covariance_with(pivot) - done[:, pivot] @ done) / np.sqrt(left[pivot])
        left = np.maximum(left - np.square(rows[step]), 0.0)
        left[pivot] = 0.0
        chosen.append(pivot)
    return np.array(chosen, dtype=np.intp)
