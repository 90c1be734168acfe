"""Softmax terms times normal distributions: their moments at nodes, and modes about which nodes are placed.

The weights are those of `core.likelihoods.block_moments.PlacedNodes`. A matrix of a site is one row.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    COUNT,
    FLAG,
    NOTHING,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.exponential import SMALLEST, exponential
from pmgp.core.numerics.compiled.routines import NOT_TRANSPOSED, ddot, dgemm
from pmgp.core.numerics.compiled.small import bounded, factorized, inverse_from, triangular_inverse_from

# Smallest eigenvalue of a covariance in units of the normal that places the nodes, as in `core.numerics.quadrature`.
RESOLUTION = 0.03
# A product of sums is turned into a logarithm when it is larger.
LARGE = 1e200


@inlined
def _affine(slope: np.ndarray, nodes: np.ndarray, lines: np.ndarray) -> None:
    """Add products of slopes, which are rows, with each node."""
    number, d = slope.shape
    size = nodes.shape[1]
    if d > 2:
        dgemm((NOT_TRANSPOSED, NOT_TRANSPOSED, size, number, d, 1.0, nodes, size, slope, d, 1.0, lines, size))
        return
    for c in range(number):
        line, left, right = lines[c], nodes[0], nodes[d - 1]
        first, second = slope[c, 0], slope[c, 1] if d == 2 else 0.0
        for k in range(len(line)):
            line[k] += first * left[k] + second * right[k]


@inlined
def _largest(numbers: np.ndarray, scratch: np.ndarray) -> float:
    """Return the largest number, found by halving so that vector instructions apply."""
    for k in range(len(scratch)):
        scratch[k] = numbers[k]
    left = len(scratch)
    while left > 1:
        half = left // 2
        here, there = scratch[:half], scratch[left - half : left]
        for k in range(len(here)):
            here[k] = there[k] if there[k] > here[k] else here[k]
        left -= half
    return scratch[0]


@kernel(FLAG, *[ROWS] * 7, VECTOR, WRITTEN_VECTOR, *[WRITTEN_ROWS] * 3)
def tilted(
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
    """Write the moments of prod_c pi_c^counts_c times normals; return false if a covariance is not positive definite.

    Means and covariances are NaN if all weights are.

    - counts (n, C)
    - contrasts (d, C)
    - mean, covariance (n, d) and (n, d d): mean and covariance of the normals
    - center, width (n, d) and (n, d d): means and covariances of the normals about which the nodes are placed
    - nodes (d, nodes)
    - log_mass (nodes,): log of the nodes' weights over their standard normal density, up to a constant
    - log_normalizer (n,)
    - tilted_mean, tilted_covariance (n, d) and (n, d d)
    - curvature (n, C C) or (0, C C): expected minus second derivatives, if memory is given
    """
    d, size = nodes.shape
    number = counts.shape[1]
    weights, top, total, ones = np.empty(size), np.empty(size), np.empty(size), np.ones(size)
    lines, slope, scaled = np.empty((d + number, size)), np.empty((d + number, d)), np.empty((max(d, number), size))
    standard, odds = lines[:d], lines[d:]
    spread, factor, inverse = np.empty(d * d), np.empty(d * d), np.empty(d * d)
    unit, scratch, first = np.empty(d * d), np.empty(d * d), np.empty(d)
    for site in range(len(log_normalizer)):
        log_scale = factorized(d, width[site], spread)
        log_covariance = factorized(d, covariance[site], factor)
        if log_scale == -math.inf or log_covariance == -math.inf:
            return False
        log_scale = 0.5 * (log_scale - log_covariance)
        triangular_inverse_from(d, factor, inverse)
        trials = 0.0
        # Maps from standard nodes to coordinates in which the normal factor is standard, and to latent values.
        for c in range(d + number):
            for g in range(d):
                slope[c, g] = 0.0
        for e in range(d):
            offset = 0.0
            for g in range(e + 1):
                offset += inverse[e * d + g] * (center[site, g] - mean[site, g])
                for h in range(g + 1):
                    slope[e, h] += inverse[e * d + g] * spread[g * d + h]
            row = standard[e]
            for k in range(len(row)):
                row[k] = offset
        for c in range(number):
            offset = 0.0
            trials += counts[site, c]
            for e in range(d):
                offset += contrasts[e, c] * center[site, e]
                for g in range(e + 1):
                    slope[d + c, g] += contrasts[e, c] * spread[e * d + g]
            row = odds[c]
            for k in range(len(row)):
                row[k] = offset
        _affine(slope, nodes, lines)
        for k in range(len(weights)):
            weights[k], total[k], top[k] = log_mass[k], 0.0, -math.inf
        for e in range(d):
            row = standard[e]
            for k in range(len(row)):
                weights[k] -= 0.5 * row[k] * row[k]
        for c in range(number):
            row = odds[c]
            for k in range(len(row)):
                top[k] = row[k] if row[k] > top[k] else top[k]
        for c in range(number):
            row, count = odds[c], counts[site, c]
            for k in range(len(row)):
                below = row[k] - top[k]
                weights[k] += count * below
                row[k] = exponential(below if below > SMALLEST else SMALLEST)
                total[k] += row[k]
        # A single trial needs no logarithm: its weight is divided by the sum, which is between one and C.
        if trials != 1.0:
            for k in range(len(weights)):
                weights[k] -= trials * math.log(total[k])
        largest = _largest(weights, standard[0])
        for k in range(len(weights)):
            below = weights[k] - largest
            weights[k] = exponential(below if below > SMALLEST else SMALLEST)
        if trials == 1.0:
            for k in range(len(weights)):
                weights[k] /= total[k]
        normalizer, sound = ddot((size, weights, 1, ones, 1)), math.isfinite(largest)
        log_normalizer[site] = largest + math.log(normalizer) + log_scale if sound else -math.inf
        share = 1.0 / normalizer if sound else math.nan
        for e in range(d):
            row, node = scaled[e], nodes[e]
            first[e] = share * ddot((size, weights, 1, node, 1))
            for k in range(len(row)):
                row[k] = weights[k] * node[k]
        for e in range(d):
            for g in range(e + 1):
                square = share * ddot((size, scaled[e], 1, nodes[g], 1)) - first[e] * first[g]
                unit[e * d + g], unit[g * d + e] = square, square
        bounded(d, RESOLUTION, unit, scratch, inverse)
        # From units of the normal that places the nodes.
        for e in range(d):
            tilted_mean[site, e] = center[site, e]
            for g in range(d):
                scratch[e * d + g] = 0.0
            for g in range(e + 1):
                tilted_mean[site, e] += spread[e * d + g] * first[g]
                for h in range(d):
                    scratch[e * d + h] += spread[e * d + g] * unit[g * d + h]
            for g in range(e + 1):
                product = 0.0
                for h in range(g + 1):
                    product += scratch[e * d + h] * spread[g * d + h]
                tilted_covariance[site, e * d + g], tilted_covariance[site, g * d + e] = product, product
        if len(curvature) == 0:
            continue
        for k in range(len(weights)):
            weights[k] *= share / (total[k] * total[k])
        for c in range(number):
            curvature[site, c * number + c] = 0.0
        for c in range(number):
            row, own = scaled[c], odds[c]
            for k in range(len(row)):
                row[k] = own[k] * weights[k]
            # Diag(pi) - pi pi' from pi pi', whose rows add up to pi.
            for g in range(c):
                product = trials * ddot((size, row, 1, odds[g], 1))
                curvature[site, c * number + g], curvature[site, g * number + c] = -product, -product
                curvature[site, c * number + c] += product
                curvature[site, g * number + g] += product
    return True


@kernel(FLAG, *[ROWS] * 5, NUMBER, NUMBER, COUNT, WRITTEN_ROWS, WRITTEN_ROWS)
def modes(
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
    """Write modes of the tilted densities, and covariances with half of the likelihood's curvature.

    Return false if a covariance is not positive definite.

    counts (n, C); contrasts (d, C); mean, covariance (n, d) and (n, d d): mean and covariance of the normals; start (n,
    d); concordance: that of log sum exp; near: steps end when none is longer; mode, width (n, d) and (n, d d).
    """
    d, number = contrasts.shape
    n = len(mode)
    precision, pi = np.empty((n, d * d)), np.empty(number)
    factor, scratch, step, own = np.empty(d * d), np.empty(d * d), np.empty(d), np.empty(d * d)
    for i in range(n):
        if factorized(d, covariance[i], factor) == -math.inf:
            return False
        inverse_from(d, factor, scratch, precision[i])
        for e in range(d):
            mode[i, e] = start[i, e]
    for _ in range(max_steps):
        longest = 0.0
        for i in range(n):
            trials, largest, total = 0.0, -math.inf, 0.0
            for c in range(number):
                trials += counts[i, c]
                pi[c] = 0.0
                for e in range(d):
                    pi[c] += contrasts[e, c] * mode[i, e]
                largest = max(largest, pi[c])
            for c in range(number):
                pi[c] = math.exp(pi[c] - largest)
                total += pi[c]
            for c in range(number):
                pi[c] /= total
            for e in range(d):
                average = 0.0
                for c in range(number):
                    average += contrasts[e, c] * pi[c]
                scratch[e], step[e] = average, -trials * average
                for c in range(number):
                    step[e] += contrasts[e, c] * counts[i, c]
                for g in range(d):
                    step[e] -= precision[i, e * d + g] * (mode[i, g] - mean[i, g])
            for e in range(d):
                for g in range(e + 1):
                    product = 0.0
                    for c in range(number):
                        product += contrasts[e, c] * pi[c] * contrasts[g, c]
                    curved = trials * (product - scratch[e] * scratch[g])
                    # The width takes half of the curvature, and the step all of it.
                    width[i, e * d + g] = precision[i, e * d + g] + 0.5 * curved
                    width[i, g * d + e] = width[i, e * d + g]
                    own[e * d + g] = precision[i, e * d + g] + curved
            if factorized(d, own, factor) == -math.inf:
                return False
            square = 0.0
            for e in range(d):
                for g in range(e):
                    step[e] -= factor[e * d + g] * step[g]
                step[e] /= factor[e * d + e]
            for back in range(d):
                e = d - 1 - back
                for g in range(e + 1, d):
                    step[e] -= factor[g * d + e] * step[g]
                step[e] /= factor[e * d + e]
                square += step[e] * step[e]
            length = concordance * math.sqrt(square)
            damping = math.log1p(length) / length if length > 0.0 else 0.0
            for e in range(d):
                mode[i, e] += damping * step[e]
            longest = length if length > longest else longest
        if not longest > near:
            break
    for i in range(n):
        factorized(d, width[i], factor)
        inverse_from(d, factor, scratch, width[i])
    return True


@kernel(NOTHING, ROWS, ROWS, ROWS, ROWS, WRITTEN_VECTOR)
def log_ratios(data: np.ndarray, linear: np.ndarray, scale: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    """Write logs of the likelihood over the sites exp(b'f - f'W f / 2), W of a softmax's form, for each row.

    data (C + 1, n): counts of each class, and the remaining terms of the log-density; linear, scale (C, n): sites b,
    and the a of W; f (k, C n); out (k,).
    """
    number, n = scale.shape
    trials, summed, constant = np.zeros(n), np.zeros(n), 0.0
    top, total, common, value = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for i in range(n):
        constant += data[number, i]
    for c in range(number):
        count, a = data[c], scale[c]
        for i in range(len(count)):
            trials[i] += count[i]
            summed[i] += a[i]
    for j in range(len(f)):
        for i in range(len(top)):
            top[i], total[i], common[i], value[i] = -math.inf, 0.0, 0.0, 0.0
        for c in range(number):
            row = f[j, c * n : (c + 1) * n]
            for i in range(len(row)):
                top[i] = row[i] if row[i] > top[i] else top[i]
        for c in range(number):
            row, count = f[j, c * n : (c + 1) * n], data[c]
            for i in range(len(row)):
                below = row[i] - top[i]
                value[i] += count[i] * below
                total[i] += exponential(below if below > SMALLEST else SMALLEST)
        for c in range(number):
            row, b, a = f[j, c * n : (c + 1) * n], linear[c], scale[c]
            for i in range(len(row)):
                value[i] -= (b[i] - 0.5 * a[i] * row[i]) * row[i]
                common[i] += a[i] * row[i]
        sums, product = constant, 1.0
        for i in range(n):
            sums += value[i] - 0.5 * common[i] * common[i] / summed[i]
            if trials[i] == 1.0:
                product *= total[i]
            else:
                sums -= trials[i] * math.log(total[i])
            if product > LARGE:
                sums -= math.log(product)
                product = 1.0
        out[j] = sums - math.log(product)
