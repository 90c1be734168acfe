"""Sites over several latent values: their cavities, and sites of the form of a softmax that match tilted moments.

These are the computations of `core.approximations.block_matching`, site by site. A matrix of a site is one row.
"""

from __future__ import annotations

import math

import numpy as np

from pmgp.core.numerics.compiled.declaration import (
    FLAG,
    NUMBER,
    ROWS,
    VECTOR,
    WRITTEN_ROWS,
    WRITTEN_VECTOR,
    inlined,
    kernel,
)
from pmgp.core.numerics.compiled.small import factorized, inverse_from, projected, quadratic

# As in `core.numerics.block_matrices`.
SMALLEST = 1e-10
ROUNDING = 1e-24
PASSES = 5
TINY = float(np.finfo(np.float64).tiny)


@kernel(FLAG, *[ROWS] * 6, NUMBER, NUMBER, *[WRITTEN_ROWS] * 7, WRITTEN_VECTOR, WRITTEN_VECTOR)
def cavities(
    contrasts: np.ndarray,
    q_mean: np.ndarray,
    q_linear: np.ndarray,
    marginals: np.ndarray,
    blocks: np.ndarray,
    largest: np.ndarray,
    rounding: float,
    smallest_share: float,
    mean: np.ndarray,
    covariance: np.ndarray,
    precision: np.ndarray,
    marginal_mean: np.ndarray,
    marginal_covariance: np.ndarray,
    site: np.ndarray,
    linear: np.ndarray,
    sound: np.ndarray,
    log_site: np.ndarray,
) -> bool:
    """Write q without each site, in contrasts; return false if a marginal of q is indefinite or wider than the prior.

    - contrasts (d, C)
    - q_mean, q_linear (C, n)
    - marginals, blocks (n, C C): covariances of q, and precisions of the sites
    - largest (C, n): variances of the prior
    - rounding: relative rounding error of variances
    - smallest_share: smallest precision of a cavity, relative to q's marginal precision
    - mean, covariance, precision, marginal_mean, marginal_covariance, site, linear, sound, log_site: fields of
      `core.approximations.block_matching.BlockCavities`, (n, d), (n, d d) or (n,) arrays
    """
    d, number = contrasts.shape
    scratch, factor, own = np.empty(max(number, d * d)), np.empty(d * d), np.empty(d * d)
    for c in range(number):
        for i in range(len(mean)):
            if not (math.isfinite(q_mean[c, i]) and marginals[i, c * number + c] <= (1.0 + rounding) * largest[c, i]):
                return False
    for i in range(len(mean)):
        projected(contrasts, marginals[i], scratch, marginal_covariance[i])
        projected(contrasts, blocks[i], scratch, site[i])
        log_marginal = factorized(d, marginal_covariance[i], factor)
        if not math.isfinite(log_marginal):
            return False
        inverse_from(d, factor, scratch, own)
        for e in range(d):
            marginal_mean[i, e], linear[i, e] = 0.0, 0.0
            for c in range(number):
                marginal_mean[i, e] += contrasts[e, c] * q_mean[c, i]
                linear[i, e] += contrasts[e, c] * q_linear[c, i]
        for e in range(d):
            for g in range(d):
                precision[i, e * d + g] = own[e * d + g] - site[i, e * d + g]
                scratch[e * d + g] = precision[i, e * d + g]
            scratch[e * d + e] -= smallest_share * d * own[e * d + e]
        # If the rest is definite, the cavity has at least this share of q's precision, in any units of the values.
        sound[i] = 1.0 if math.isfinite(factorized(d, scratch, factor)) else 0.0
        if sound[i] == 0.0:
            for e in range(d * d):
                precision[i, e] = own[e]
        log_cavity = factorized(d, precision[i], factor)
        inverse_from(d, factor, scratch, covariance[i])
        for e in range(d):
            scratch[e] = 0.0 if sound[i] == 0.0 else -linear[i, e]
            for g in range(d):
                scratch[e] += own[e * d + g] * marginal_mean[i, g]
        for e in range(d):
            mean[i, e] = 0.0
            for g in range(d):
                mean[i, e] += covariance[i, e * d + g] * scratch[g]
        difference = quadratic(d, own, marginal_mean[i]) - quadratic(d, precision[i], mean[i])
        log_site[i] = 0.5 * (log_cavity + log_marginal + difference)
    return True


@inlined
def _nearest(number: int, coupling: np.ndarray, r: np.ndarray) -> None:
    """Write positive r whose products are close to the off-diagonal elements of a matrix with a zero diagonal."""
    if number == 2:
        r[0] = r[1] = math.sqrt(max(coupling[1], 0.0))
    else:
        total = 0.0
        for element in coupling:
            total += element * element
        for c in range(number):
            products, squares = 0.0, 0.0
            for e in range(number):
                squares += coupling[c * number + e] ** 2
                for g in range(number):
                    products += coupling[c * number + e] * coupling[e * number + g] * coupling[c * number + g]
            rest = max(total - 2.0 * squares, ROUNDING * total + TINY)
            r[c] = math.sqrt(max(products, 0.0) / rest)
    for _ in range(PASSES):
        for c in range(number):
            r[c] = 0.0
            product, square = 0.0, 0.0
            for e in range(number):
                product += coupling[c * number + e] * r[e]
                square += r[e] * r[e]
            r[c] = max(product / max(square, TINY), 0.0)


@kernel(NUMBER, *[ROWS] * 5, *[VECTOR] * 3, *[ROWS] * 4, NUMBER, WRITTEN_ROWS, WRITTEN_ROWS)
def matched(
    contrasts: np.ndarray,
    mean: np.ndarray,
    precision: np.ndarray,
    site: np.ndarray,
    linear: np.ndarray,
    sound: np.ndarray,
    log_site: np.ndarray,
    log_normalizer: np.ndarray,
    tilted_mean: np.ndarray,
    tilted_covariance: np.ndarray,
    curvature: np.ndarray,
    scale: np.ndarray,
    share: float,
    matched_linear: np.ndarray,
    matched_scale: np.ndarray,
) -> float:
    """Write matching sites; return the sum of the tilted log normalizers less those of the sites.

    - contrasts (d, C)
    - mean, precision, site, linear, sound, log_site: as `cavities` writes them
    - log_normalizer, tilted_mean, tilted_covariance: moments of the tilted densities, (n,), (n, d) and (n, d d)
    - curvature (n, C C) or (0, C C): expected curvatures, which the precisions approach if they are given
    - scale (C, n)
    - share: fraction of the way to the curvatures
    - matched_linear, matched_scale (C, n)
    """
    d, number = contrasts.shape
    n, total = len(mean), 0.0
    scratch, factor, inverse = np.empty(max(number, d * d)), np.empty(d * d), np.empty(d * d)
    coupling, r, known = np.empty(number * number), np.empty(number), np.empty(d)
    for i in range(n):
        total += log_normalizer[i] - log_site[i]
        definite = math.isfinite(factorized(d, tilted_covariance[i], factor))
        good = sound[i] > 0.0 and math.isfinite(log_normalizer[i]) and definite
        if len(curvature) > 0:
            summed = 0.0
            for c in range(number):
                summed += scale[c, i]
            for c in range(number):
                for e in range(number):
                    own = curvature[i, c * number + e] if good else -scale[c, i] * scale[e, i] / summed
                    coupling[c * number + e] = -own
        else:
            if good:
                inverse_from(d, factor, scratch, inverse)
            for c in range(number):
                for e in range(number):
                    own = 0.0
                    for g in range(d):
                        for h in range(d):
                            k = g * d + h
                            block = inverse[k] - precision[i, k] if good else site[i, k]
                            own += contrasts[g, c] * block * contrasts[h, e]
                    coupling[c * number + e] = -own
        for c in range(number):
            coupling[c * number + c] = 0.0
        _nearest(number, coupling, r)
        summed, weight = 0.0, share if len(curvature) > 0 else 1.0
        for c in range(number):
            summed += r[c]
        for c in range(number):
            nearest = max(r[c] * summed, SMALLEST)
            matched_scale[c, i] = nearest if weight == 1.0 else scale[c, i] + weight * (nearest - scale[c, i])
        # The linear terms with which sites of these precisions give q the tilted means.
        for e in range(d):
            known[e] = linear[i, e]
            if good:
                known[e] = 0.0
                for g in range(d):
                    known[e] += precision[i, e * d + g] * (tilted_mean[i, g] - mean[i, g])
        summed, common = 0.0, 0.0
        for c in range(number):
            value = 0.0
            for e in range(d):
                value += contrasts[e, c] * tilted_mean[i, e]
            scratch[c] = matched_scale[c, i] * value
            summed += matched_scale[c, i]
            common += scratch[c]
        if good:
            for c in range(number):
                product = scratch[c] - matched_scale[c, i] * common / summed
                for e in range(d):
                    known[e] += contrasts[e, c] * product
        for c in range(number):
            matched_linear[c, i] = 0.0
            for e in range(d):
                matched_linear[c, i] += contrasts[e, c] * known[e]
    return total


@kernel(NUMBER, *[ROWS] * 7)
def divergence(
    marginals: np.ndarray,
    scale: np.ndarray,
    mean: np.ndarray,
    linear: np.ndarray,
    new_scale: np.ndarray,
    new_mean: np.ndarray,
    new_linear: np.ndarray,
) -> float:
    """Return q's divergence without its log-determinants: tr(V dW) + dmu' (db - dW mu).

    marginals (n, C C) of the old q; scale, mean, linear (C, n) of the old q, and the same of the new one.
    """
    number, n = scale.shape
    total = 0.0
    for i in range(n):
        summed, new_summed, weighted, new_weighted = 0.0, 0.0, 0.0, 0.0
        for c in range(number):
            summed += scale[c, i]
            new_summed += new_scale[c, i]
            weighted += scale[c, i] * mean[c, i]
            new_weighted += new_scale[c, i] * mean[c, i]
        for c in range(number):
            change = (new_scale[c, i] - scale[c, i]) * mean[c, i]
            change += scale[c, i] * weighted / summed - new_scale[c, i] * new_weighted / new_summed
            total += (new_mean[c, i] - mean[c, i]) * (new_linear[c, i] - linear[c, i] - change)
            total += marginals[i, c * number + c] * (new_scale[c, i] - scale[c, i])
            for e in range(number):
                shared = scale[c, i] * scale[e, i] / summed - new_scale[c, i] * new_scale[e, i] / new_summed
                total += marginals[i, c * number + e] * shared
    return total


@kernel(NUMBER, *[ROWS] * 6, WRITTEN_ROWS)
def required_change(
    marginals: np.ndarray,
    scale: np.ndarray,
    mean: np.ndarray,
    linear: np.ndarray,
    new_scale: np.ndarray,
    new_linear: np.ndarray,
    change: np.ndarray,
) -> float:
    """Write db - dW mu for a change to other sites; return the sum of tr(V dW V dW).

    marginals (n, C C): V, covariances of q; scale, mean, linear (C, n) of q; new_scale, new_linear (C, n) of the other
    sites; change (C, n).
    """
    number, n = scale.shape
    changed, product = np.empty(number * number), np.empty(number * number)
    total = 0.0
    for i in range(n):
        summed, new_summed = 0.0, 0.0
        for c in range(number):
            summed += scale[c, i]
            new_summed += new_scale[c, i]
        for c in range(number):
            change[c, i] = new_linear[c, i] - linear[c, i]
            for e in range(number):
                block = scale[c, i] * scale[e, i] / summed - new_scale[c, i] * new_scale[e, i] / new_summed
                if c == e:
                    block += new_scale[c, i] - scale[c, i]
                changed[c * number + e] = block
                change[c, i] -= block * mean[e, i]
        for c in range(number):
            for e in range(number):
                k = c * number + e
                product[k] = 0.0
                for g in range(number):
                    product[k] += marginals[i, c * number + g] * changed[g * number + e]
        for c in range(number):
            for e in range(number):
                total += product[c * number + e] * product[e * number + c]
    return total
