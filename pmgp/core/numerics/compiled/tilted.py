"""Moments of terms times normal densities by quadrature, from the terms' values at the nodes.

NumPy would pass over the values a dozen times; here a block of sites stays in the processor's first cache. There are
many short loops, because the compiler does not vectorize a loop that writes several arrays.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import FLAG, NOTHING, NUMBER, ROWS, VECTOR, WRITTEN_ROWS, kernel
from pmgp.core.numerics.compiled.exponential import exponential

SITES = 64
# Nodes whose logs are this far below the largest are negligible. The exponential of a smaller number, times a small
# weight, would be subnormal, and processors compute slowly with such numbers.
NEGLIGIBLE = -500.0


@kernel(NOTHING, VECTOR, VECTOR, VECTOR, VECTOR, WRITTEN_ROWS)
def placed(mean: np.ndarray, center: np.ndarray, width: np.ndarray, nodes: np.ndarray, points: np.ndarray) -> None:
    """Write the points at which terms are evaluated.

    - mean, center, width (n,): means of the normals in the densities; means and variances of those that place the nodes
    - nodes (order,)
    - points (order, n)
    """
    root, shift = np.empty(len(mean)), np.empty(len(mean))
    for i in range(len(mean)):
        root[i], shift[i] = math.sqrt(width[i]), center[i] - mean[i]
    for k in range(len(nodes)):
        node, row = nodes[k], points[k]
        for i in range(len(row)):
            # Rounding would move the sum of center and node by more than a very small variance.
            row[i] = mean[i] + (shift[i] + root[i] * node)


@kernel(NOTHING, ROWS, *[VECTOR] * 6, FLAG, NUMBER, WRITTEN_ROWS)
def moments(
    logs: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    center: np.ndarray,
    width: np.ndarray,
    nodes: np.ndarray,
    weights: np.ndarray,
    moved: bool,
    resolution: float,
    out: np.ndarray,
) -> None:
    """Write mean, variance and log normalizer of each term times N(mean, variance).

    - logs (order, n): logs of the terms at the nodes
    - mean, variance, center, width (n,): moments of the normals in the densities, and of those that place the nodes
    - nodes, weights (order,): a rule for the standard normal distribution
    - moved: whether the two normals differ
    - resolution: the least variance, relative to that of the normal that places the nodes
    - out (3, n)
    """
    order, n = logs.shape
    values = np.empty((order, SITES))
    largest, total, first, second, shift, root, half = np.empty((7, SITES))
    for begin in range(0, n, SITES):
        size = min(SITES, n - begin)
        for i in range(size):
            largest[i], total[i], first[i], second[i] = -math.inf, 0.0, 0.0, 0.0
            shift[i], root[i] = center[begin + i] - mean[begin + i], math.sqrt(width[begin + i])
            half[i] = 0.5 / variance[begin + i] if moved else 0.0
        for k in range(order):
            node, row, value = nodes[k], logs[k, begin : begin + size], values[k, :size]
            added = 0.5 * node * node if moved else 0.0
            for i in range(len(row)):
                # The ratio of the two normals at the node.
                deviation = shift[i] + root[i] * node
                value[i] = row[i] + (added - deviation * deviation * half[i])
            for i in range(len(value)):
                # NaN stays NaN.
                largest[i] = largest[i] if value[i] <= largest[i] else value[i]
        for k in range(order):
            node, weight, value = nodes[k], weights[k], values[k, :size]
            for i in range(len(value)):
                below = value[i] - largest[i]
                value[i] = weight * exponential(NEGLIGIBLE if below < NEGLIGIBLE else below)
            for i in range(len(value)):
                total[i] += value[i]
                first[i] += node * value[i]
        for i in range(size):
            first[i] /= total[i]
        for k in range(order):
            node, value = nodes[k], values[k, :size]
            for i in range(len(value)):
                deviation = node - first[i]
                second[i] += value[i] * deviation * deviation
        for i in range(size):
            site = begin + i
            ratio = 0.5 * math.log(width[site] / variance[site]) if moved else 0.0
            out[0, site] = mean[site] + (shift[i] + root[i] * first[i])
            out[1, site] = width[site] * max(second[i] / total[i], resolution)
            out[2, site] = largest[i] + math.log(total[i]) + ratio
            if not abs(largest[i]) < math.inf:
                out[0, site], out[1, site], out[2, site] = math.nan, math.nan, largest[i]
