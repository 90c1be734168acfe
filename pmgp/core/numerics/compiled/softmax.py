"""Softmax terms at nodes: the weights of `core.likelihoods.block_moments.PlacedNodes`, and what is averaged by them."""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    NOTHING,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.exponential import SMALLEST, exponential
from pmgp.core.numerics.compiled.routines import ddot

__all__ = ["averages"]


@inlined
def _affine(
    offset: float,
    slope: np.ndarray,
    nodes: np.ndarray,
    line: np.ndarray,
) -> None:
    """Write the offset plus the product of the slope with each node."""
    for k in range(len(line)):
        line[k] = offset
    for g in range(len(slope)):
        step, node = slope[g], nodes[g]
        for k in range(len(line)):
            line[k] += step * node[k]


@inlined
def _weighed(
    trials: float,
    top: np.ndarray,
    total: np.ndarray,
    weights: np.ndarray,
) -> tuple[float, float]:
    """Weights of the nodes from their logarithms but for the softmax's normalizer; their sum, and what they lack."""
    largest, normalizer = -math.inf, 0.0
    for k in range(len(weights)):
        weights[k] -= trials * top[k]
        # A single trial needs no logarithm: its weight is divided by the sum, which is between one and C.
        if trials != 1.0:
            weights[k] -= trials * math.log(total[k])
        largest = weights[k] if weights[k] > largest else largest
    for k in range(len(weights)):
        below = weights[k] - largest
        weights[k] = exponential(below if below > SMALLEST else SMALLEST)
        if trials == 1.0:
            weights[k] /= total[k]
    for k in range(len(weights)):
        normalizer += weights[k]
    return normalizer, largest


@kernel(NOTHING, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, VECTOR, WRITTEN_VECTOR, WRITTEN_ROWS, WRITTEN_ROWS, WRITTEN_ROWS)
def averages(
    counts: np.ndarray,
    offset: np.ndarray,
    slope: np.ndarray,
    standard_offset: np.ndarray,
    standard_slope: np.ndarray,
    nodes: np.ndarray,
    log_mass: np.ndarray,
    log_normalizer: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    products: np.ndarray,
) -> None:
    """Write averages over tilted nodes z, for n sites; where no weight is a number, nor is any of them.

    Parameters
    ----------
    counts : (n, C) array
    offset, slope : (n, C) and (n, C d) array
        A and B of the latent values A + B z.
    standard_offset, standard_slope : (n, d) and (n, d d) array
        A and B of A + B z, standard normal under the normal to be multiplied.
    nodes : (d, nodes) array
    log_mass : (nodes,) array
        Log of the nodes' weights over their standard normal density, but for its constant.
    log_normalizer : (n,) array
        Log of the sum of all weights.
    first, second : (n, d) and (n, d d) array
        Of the nodes, and of their products.
    products : (n, C C) array
        Of those of two probabilities.
    """
    d, size = nodes.shape
    number = counts.shape[1]
    weights, line, top, total = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    odds, scaled = np.empty((number, size)), np.empty((max(d, number), size))
    for site in range(len(log_normalizer)):
        trials = 0.0
        for k in range(size):
            weights[k], top[k], total[k] = log_mass[k], -math.inf, 0.0
        for e in range(d):
            _affine(standard_offset[site, e], standard_slope[site, e * d : (e + 1) * d], nodes, line)
            for k in range(size):
                weights[k] -= 0.5 * line[k] * line[k]
        for c in range(number):
            row, count = odds[c], counts[site, c]
            trials += count
            _affine(offset[site, c], slope[site, c * d : (c + 1) * d], nodes, row)
            for k in range(size):
                weights[k] += count * row[k]
                top[k] = row[k] if row[k] > top[k] else top[k]
        for c in range(number):
            row = odds[c]
            for k in range(size):
                below = row[k] - top[k]
                row[k] = exponential(below if below > SMALLEST else SMALLEST)
                total[k] += row[k]
        normalizer, largest = _weighed(trials, top, total, weights)
        sound = math.isfinite(largest)
        log_normalizer[site] = largest + math.log(normalizer) if sound else -math.inf
        share = 1.0 / normalizer if sound else math.nan
        for k in range(size):
            weights[k] *= share
            line[k] = weights[k] / (total[k] * total[k])
        for e in range(d):
            row, node = scaled[e], nodes[e]
            first[site, e] = ddot((size, weights, 1, node, 1))
            for k in range(size):
                row[k] = weights[k] * node[k]
            for g in range(e + 1):
                square = ddot((size, row, 1, nodes[g], 1))
                second[site, e * d + g], second[site, g * d + e] = square, square
        for c in range(number):
            row, own = scaled[c], odds[c]
            for k in range(size):
                row[k] = own[k] * line[k]
            for g in range(c + 1):
                product = ddot((size, row, 1, odds[g], 1))
                products[site, c * number + g], products[site, g * number + c] = product, product
