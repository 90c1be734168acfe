"""NumPy versions of the compiled kernels, called alike, which the kernels are compared with.

Inside ``by_numpy()`` the package computes with these, and step by step what whole-iteration kernels do elsewhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from math import nan
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.linalg.blas import dsymm, dsymv, dtrmm, dtrmv
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri, dtrtrs
from scipy.special import log_ndtr, ndtr

from pmgp.core.approximations import block_matching, block_propagation
from pmgp.core.estimators.importance import log_mean_exp
from pmgp.core.likelihoods import compiled_terms
from pmgp.core.likelihoods.block_moments import PlacedNodes, normalized, pairs, placed_nodes
from pmgp.core.likelihoods.normal_interval import NormalInterval
from pmgp.core.likelihoods.normal_tails import excess, hazard
from pmgp.core.numerics import linalg
from pmgp.core.numerics.block_matrices import ContrastBlocks, definite
from pmgp.core.numerics.block_shrinkage import _solved
from pmgp.core.numerics.compiled import loading, moments
from pmgp.core.numerics.compiled.sites import INFORMATIVE, SHARP
from pmgp.core.numerics.linalg import BLOCK, scaled_plus_identity
from pmgp.core.transitions import proposals
from pmgp.core.transitions.metropolis_hastings import Proposed
from pmgp.core.transitions.proposals import INDEPENDENT, AdaptiveProposal

# Of a block's transposed square, the part that lies above the diagonal of the matrix.
ABOVE = np.tri(BLOCK, k=-1, dtype=bool)
# Up to here LAPACK's own inversion of a triangle is the faster one.
SMALL_TRIANGLE = 64
# Phi is a normal number down to here, with full precision.
UNDERFLOW = -37.0
# What is left of a distribution function, as a share and at all, that its rounding changes by a part in 1e13 at most.
PLAIN, SMALL = 1e-3, 1e-290
# Sites whose nodes are handled at a time, so that they stay in the processor's cache.
SITES = 8

REFERENCES: dict[str, Callable[..., Any]] = {}
"""By the names of the kernels."""


def reference(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def registered(function: Callable[..., Any]) -> Callable[..., Any]:
        REFERENCES[name] = function
        return function

    return registered


def _triangular_inverse(factor: np.ndarray) -> np.ndarray:
    """L^-1, in place, by halves: the lower left block of L^-1 is -L_22^-1 L_21 L_11^-1.

    Products of triangles with matrices run at two to three times the speed of LAPACK's inversion, whose blocks are
    small: for 200 columns the whole takes six tenths of the time.
    """
    n = len(factor)
    if n <= SMALL_TRIANGLE:
        return dtrtri(factor, lower=1, overwrite_c=1)[0]
    half = n // 2
    upper = _triangular_inverse(factor[:half, :half].copy(order="F"))
    lower = _triangular_inverse(factor[half:, half:].copy(order="F"))
    across = dtrmm(-1.0, upper, factor[half:, :half].copy(order="F"), side=1, lower=1, overwrite_b=1)
    factor[:half, :half], factor[half:, half:] = upper, lower
    factor[half:, :half] = dtrmm(1.0, lower, across, lower=1, overwrite_b=1)
    return factor


@reference("sites.factorize")
def sites_factorize(transposed: np.ndarray, transposed_factor: np.ndarray) -> int:
    """In other memory, without what stands above the diagonal."""
    transposed_factor[:] = transposed
    factor, order = dpotrf(transposed_factor.T, lower=1, overwrite_a=1, clean=0)
    unsound = ~np.isfinite(factor.diagonal())
    return order if order else int(unsound.argmax()) + 1 if unsound.any() else 0


@reference("inversion.triangular_inverse")
def inversion_triangular_inverse(transposed: np.ndarray) -> None:
    _triangular_inverse(transposed.T)


@reference("moments.inverse_diagonal")
def moments_inverse_diagonal(transposed: np.ndarray, diagonal: np.ndarray) -> None:
    inverse = _triangular_inverse(transposed.T)
    for start in range(0, len(diagonal), BLOCK):
        columns = inverse[start:, start : start + BLOCK].T
        width = len(columns)
        # Above the diagonal there is what was there before.
        np.copyto(columns[:, :width], 0.0, where=ABOVE[:width, :width])
        diagonal[start : start + width] = np.vecdot(columns, columns)


@reference("sites.condition")
def sites_condition(
    transposed: np.ndarray,
    prior_mean: np.ndarray,
    linear: np.ndarray,
    precision: np.ndarray,
    transposed_factor: np.ndarray,
    mean: np.ndarray,
    work: np.ndarray,
) -> float:
    covariance, factor, root = transposed.T, transposed_factor.T, np.sqrt(precision)
    scaled_plus_identity(covariance, root, factor)
    if dpotrf(factor, lower=1, overwrite_a=1, clean=0)[1] != 0:
        return np.nan
    centered, sharpness = linear - precision * prior_mean, precision * covariance.diagonal()
    sharp = sharpness.max() > SHARP
    solved = centered / root if sharp else root * dsymv(1.0, covariance, centered, lower=1)
    for transpose in (0, 1):
        solved = dtrtrs(factor, solved, lower=1, trans=transpose)[0]
    if sharp:
        moved = np.where(sharpness > 1.0, (centered - root * solved) / precision, covariance @ (root * solved))
    mean[:] = prior_mean + (moved if sharp else solved / root)
    return 2.0 * float(np.log(factor.diagonal()).sum())


@reference("sites.deviations")
def sites_deviations(
    transposed_prior_factor: np.ndarray,
    transposed: np.ndarray,
    transposed_factor: np.ndarray,
    precision: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    out: np.ndarray,
) -> bool:
    prior_factor, covariance, factor = transposed_prior_factor.T, transposed.T, transposed_factor.T
    root = np.sqrt(precision)[:, None]
    one = len(out) == 1
    # The level-3 routines take ten times as long for one column.
    u = dtrmv(prior_factor, first[0], lower=1)[:, None] if one else dtrmm(1.0, prior_factor, first.T, lower=1)
    solved = dpotrs(factor, root * u + second.T, lower=1)[0]
    if (precision * covariance.diagonal()).min() >= INFORMATIVE:
        out[:] = ((solved - second.T) / root).T
        return False
    solved *= root
    along = dsymv(1.0, covariance, solved[:, 0], lower=1)[:, None] if one else dsymm(1.0, covariance, solved, lower=1)
    out[:] = (u - along).T
    return True


@reference("sites.log_normalizer")
def sites_log_normalizer(
    prior_mean: np.ndarray, linear: np.ndarray, precision: np.ndarray, mean: np.ndarray, log_determinant: float
) -> float:
    centered = linear - precision * prior_mean
    offset = float(prior_mean @ (linear - 0.5 * precision * prior_mean))
    return offset + 0.5 * float(centered @ (mean - prior_mean)) - 0.5 * log_determinant


@reference("sites.log_sites")
def sites_log_sites(linear: np.ndarray, precision: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    out[:] = f @ linear - 0.5 * np.square(f) @ precision


def log_site_normalizer(b: np.ndarray, w: np.ndarray, c: np.ndarray, s: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Log of the integral of the cavity N(f|c, s) times exp(b f - w f^2 / 2), where 1 + s w = 1 / d.

    With log Z_q it makes up the evidence of expectation propagation, log Z_q + sum_i [log Z^_i - this]: q's normalizer
    with each site's share of it replaced by that of the exact term. It is stationary in the sites where they match.
    """
    return 0.5 * np.log(d) + d * (b * c + 0.5 * (b * b * s - w * c * c))


@reference("moments.matched")
def moments_matched(
    linear: np.ndarray,
    precision: np.ndarray,
    mean: np.ndarray,
    variance: np.ndarray,
    inverse_diagonal: np.ndarray,
    tilted_mean: np.ndarray,
    tilted_variance: np.ndarray,
    log_normalizer: np.ndarray,
    smallest: float,
    sites: np.ndarray,
) -> float:
    """Write the sites that match; what the terms add to the evidence beside log Z_q.

    Where a term is not log-concave the matching site may have a negative precision; it is raised to almost zero, and q
    keeps the tilted mean.
    """
    sound = np.isfinite(tilted_mean) & (tilted_variance > 0.0)
    difference = 1.0 / np.where(sound, tilted_variance, 1.0) - 1.0 / variance
    matching = np.where(
        sound, np.maximum(difference, smallest / np.maximum(variance, moments.SMALLEST_VARIANCE)), precision
    )
    sites[0] = np.where(sound, tilted_mean * (1.0 / variance + matching) - mean / variance, linear)
    sites[1] = matching
    return float(np.sum(log_normalizer - log_site_normalizer(linear, precision, mean, variance, inverse_diagonal)))


@reference("moments.cavities")
def moments_cavities(
    prior_variance: np.ndarray,
    q_mean: np.ndarray,
    linear: np.ndarray,
    q_variance: np.ndarray,
    inverse_diagonal: np.ndarray,
    largest: float,
    mean: np.ndarray,
    variance: np.ndarray,
) -> bool:
    """Write means and variances; false where an element of diag(B^-1) is too large."""
    if not inverse_diagonal.max() <= largest:
        return False
    # A cavity is no wider than the prior; rounding would make it so where a precision is next to nothing.
    variance[:] = np.minimum(q_variance / inverse_diagonal, prior_variance)
    mean[:] = (q_mean - linear * q_variance) / inverse_diagonal
    return True


def _log_block_normalizer(
    mean: np.ndarray, precision: np.ndarray, marginal_mean: np.ndarray, marginal: np.ndarray
) -> np.ndarray:
    """Log of the integral of the cavity times the site: (n,); zero where q's marginal stands for the cavity."""
    _, log_cavity = np.linalg.slogdet(precision)
    _, log_marginal = np.linalg.slogdet(marginal)
    own = np.linalg.solve(marginal, marginal_mean[:, :, None])[:, :, 0]
    inner = np.einsum("nd,nd->n", own, marginal_mean)
    outer = np.einsum("nd,nde,ne->n", mean, precision, mean)
    return 0.5 * (log_cavity + log_marginal + inner - outer)


@reference("cavities.cavities")
def cavities_cavities(
    contrasts: np.ndarray,
    q_mean: np.ndarray,
    q_linear: np.ndarray,
    marginals: np.ndarray,
    blocks: np.ndarray,
    largest: np.ndarray,
    rounding: float,
    smallest_share: float,
    *written: np.ndarray,
) -> bool:
    number, n = q_mean.shape
    marginals, blocks = (x.reshape(n, number, number) for x in (marginals, blocks))
    if not (np.isfinite(q_mean).all() and (np.einsum("icc->ci", marginals) <= (1.0 + rounding) * largest).all()):
        return False
    marginal, site = (contrasts @ x @ contrasts.T for x in (marginals, blocks))
    if not definite(marginal).all():
        return False
    mean, linear = (contrasts @ q_mean).T, (contrasts @ q_linear).T
    own = np.linalg.inv(marginal)
    precision = 0.5 * (own - site + (own - site).swapaxes(1, 2))
    d = own.shape[1]
    least = smallest_share * d * own * np.eye(d)
    sound = np.linalg.eigvalsh(precision - least)[:, 0] > 0.0
    precision = np.where(sound[:, None, None], precision, own)
    covariance = np.linalg.inv(precision)
    shifted = np.einsum("nde,ne->nd", own, mean) - np.where(sound[:, None], linear, 0.0)
    cavity_mean = np.einsum("nde,ne->nd", covariance, shifted)
    log_site = _log_block_normalizer(cavity_mean, precision, mean, marginal)
    found = cavity_mean, covariance, precision, mean, marginal, site, linear, sound, log_site
    for out, values in zip(written, found, strict=True):
        out[:] = values.reshape(out.shape)
    return True


@reference("contrasts.conditioned")
def contrasts_conditioned(
    covariance: np.ndarray, scale: np.ndarray, inverse: np.ndarray, weighted: np.ndarray, total: np.ndarray
) -> float:
    root = np.sqrt(scale)
    try:
        # Above the diagonal stands what was in memory, which may be anything.
        factor = np.linalg.cholesky(np.tril(linalg.scaled_plus_identity(covariance.T, root)))
    except np.linalg.LinAlgError:
        return nan
    lower = np.tril(linalg.triangular_inverse(factor))
    inverse.T[:], weighted.T[:] = lower, np.tril(lower.T @ lower) * root[:, None] * root
    total += weighted
    return linalg.log_determinant(factor)


@reference("contrasts.balanced")
def contrasts_balanced(
    weighted: np.ndarray, scale: np.ndarray, common: np.ndarray, u: np.ndarray, e: np.ndarray
) -> None:
    number, n = scale.shape
    divided = e.reshape(number, -1, n) / np.sqrt(scale)[:, None, :] - u.reshape(number, -1, n)
    parts = zip(np.split(weighted, number), divided, strict=True)
    summed = -np.sum([linalg.symmetrized(part.T) @ block.T for part, block in parts], axis=0)
    e[:] = (scale[:, None, :] * (divided + _solved(common.T, summed).T)).reshape(e.shape)


@reference("contrasts.shrunk")
def contrasts_shrunk(
    covariance: np.ndarray, scale: np.ndarray, inverse: np.ndarray, x: np.ndarray, out: np.ndarray
) -> None:
    root = np.sqrt(scale)
    out += _solved(inverse.T, root[:, None] * linalg.symmetrized(covariance.T) @ x.T).T / root


@reference("contrasts.marginals")
def contrasts_marginals(
    weighted: np.ndarray, scale: np.ndarray, variance: np.ndarray, common: np.ndarray, found: np.ndarray
) -> None:
    number, n = scale.shape
    blocks, solved = found.reshape(n, number, number), []
    for c, (part, d) in enumerate(zip(np.split(weighted, number), scale, strict=True)):
        shrunk = np.asfortranarray(np.eye(n) - linalg.symmetrized(part.T) / d)
        solved.append(linalg.triangular_product(common.T, shrunk))
        for other in range(c + 1):
            blocks[:, c, other] = blocks[:, other, c] = np.einsum("ki,ki->i", solved[c], solved[other])
        own = shrunk.diagonal() / d
        # Beside a prior that leaves next to no variance, what the site takes from it is lost in rounding.
        blocks[:, c, c] += np.where(own > 0.0, own, variance[c])


@reference("prediction.features")
def prediction_features(
    theta: np.ndarray,
    location: np.ndarray,
    scale: np.ndarray,
    farthest: float,
    factors: np.ndarray,
    features: np.ndarray,
) -> None:
    """Write the monomials."""
    z = np.append(np.clip((theta - location) / scale, -farthest, farthest), 1.0)
    features[:] = np.multiply.reduce(z[factors], axis=1)


@reference("importance.normalized")
def importance_normalized(log_weights: np.ndarray, weights: np.ndarray) -> float:
    """Write weights that sum to one, zeros where all vanish; the log of their mean."""
    weights[:] = 0.0
    log_mean = float(log_mean_exp(log_weights))
    if np.isfinite(log_mean):
        np.exp(log_weights - log_weights.max(), out=weights)
        weights /= weights.sum()
    return log_mean


@reference("renewal.picked")
def renewal_picked(weights: np.ndarray, number: float) -> int:
    """An index by inversion of weights that sum to one, but for rounding."""
    return bisect_right(weights.cumsum(), number, hi=len(weights) - 1)


def _with_zero_sums(products: np.ndarray) -> np.ndarray:
    """Diag(pi) - pi pi' from pi pi', whose rows add up to pi: (n, C, C)."""
    return np.eye(products.shape[1]) * products.sum(axis=2)[:, None, :] - products


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
    """Log of the sum of weights; averages of nodes, of their products, and of those of two probabilities if wanted."""
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


@reference("softmax.tilted")
def softmax_tilted(
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


@reference("softmax.modes")
def softmax_modes(
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


@reference("probit.log_ratios")
def probit_log_ratios(
    sign: np.ndarray, linear: np.ndarray, precision: np.ndarray, f: np.ndarray, out: np.ndarray
) -> None:
    z = sign * f
    logs = log_ndtr(z) if z.min(initial=0.0) < UNDERFLOW else np.log(ndtr(z))
    out[:] = logs.sum(axis=-1)
    if len(linear):
        out -= f @ linear - 0.5 * np.square(f) @ precision


@reference("probit.derivatives")
def probit_derivatives(sign: np.ndarray, f: np.ndarray, out: np.ndarray) -> None:
    z = sign * f
    slope = hazard(z)
    out[0], out[1] = sign * slope, slope * excess(z)


@reference("probit.tilted_moments")
def probit_tilted_moments(sign: np.ndarray, mean: np.ndarray, variance: np.ndarray, out: np.ndarray) -> None:
    scale = np.sqrt(1.0 + variance)
    z = sign * mean / scale
    slope = hazard(z)
    out[0] = mean + sign * variance * slope / scale
    out[1] = variance - np.square(variance / scale) * slope * excess(z)
    out[2] = log_ndtr(z)


@reference("tilted.placed")
def tilted_placed(
    mean: np.ndarray, center: np.ndarray, width: np.ndarray, nodes: np.ndarray, points: np.ndarray
) -> None:
    points[:] = mean + ((center - mean) + np.sqrt(width) * nodes[:, None])


@reference("tilted.moments")
def tilted_moments(
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
    deviations = (center - mean) + np.sqrt(width) * nodes[:, None]
    if moved:
        logs = logs - 0.5 * np.square(deviations) / variance + 0.5 * np.square(nodes)[:, None]
        logs += 0.5 * np.log(width / variance)
    largest = logs.max(axis=0)
    tilted = weights[:, None] * np.exp(logs - np.where(np.isfinite(largest), largest, 0.0))
    normalizer = tilted.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        tilted /= normalizer
        log_normalizer = largest + np.log(normalizer)
    shift = (tilted * deviations).sum(axis=0)
    spread = (tilted * np.square(deviations - shift)).sum(axis=0)
    out[0], out[1], out[2] = mean + shift, np.maximum(spread, resolution * width), log_normalizer


@reference("ordinal.log_ratios")
def ordinal_log_ratios(
    data: np.ndarray, linear: np.ndarray, precision: np.ndarray, f: np.ndarray, out: np.ndarray
) -> None:
    noise = data[2]
    lower, upper = (data[0] - f) / noise, (data[1] - f) / noise
    # P(lower < u < upper) = P(-upper < u < -lower).
    reflect = lower + upper > 0.0
    below = ndtr(np.where(reflect, -lower, upper))
    probability = below - ndtr(np.where(reflect, -upper, lower))
    lost = ~(probability > np.maximum(PLAIN * below, SMALL))
    probability[lost] = 1.0
    logs = np.log(probability)
    if lost.any():
        low, high, deviation, at = (np.broadcast_to(array, logs.shape)[lost] for array in (*data, f))
        limits = (low - at) / deviation, (high - at) / deviation, (high - low) / deviation
        logs[lost] = NormalInterval(*limits).log_probability()
    out[:] = logs.sum(axis=-1)
    if len(linear):
        out -= f @ linear - 0.5 * np.square(f) @ precision


@reference("sites.unpack")
def sites_unpack(part: np.ndarray, first: int, mirrored: bool, upper: np.ndarray) -> None:
    row, start, n = first, 0, len(upper)
    while start < part.size:
        upper[row, row:] = part[start : start + n - row]
        if mirrored:
            upper[row:, row] = upper[row, row:]
        row, start = row + 1, start + n - row


def multiple_trial(rng: np.random.Generator, log_ratios: np.ndarray) -> int:
    """Choose where to go: an index of `log_ratios`, 0 for staying.

    Parameters
    ----------
    rng : numpy.random.Generator
    log_ratios : (k + 1,) array
        Log of s over g where the chain stands, and at each of the draws.
    """
    ratios = np.exp(log_ratios - log_ratios.max())
    sums = np.cumsum(ratios[1:])
    pick, accept = rng.random(2)
    chosen = 1 + min(int(np.searchsorted(sums, pick * sums[-1], side="right")), len(sums) - 1)
    return chosen if accept * (sums[-1] - ratios[chosen] + ratios[0]) < sums[-1] else 0


def emulated_by_steps(proposal: AdaptiveProposal, rng: np.random.Generator, theta: np.ndarray) -> Proposed:
    """One transition of the multiple-trial independence sampler for the emulated density."""
    tries = proposals.TRIES_OF_THREE if proposal.dimension <= 3 else proposals.TRIES
    tried = np.vstack([theta, proposal._draws_of_t(rng, tries)])
    log_t = proposal._log_t_of(tried)
    log_ratios = proposal._log_ratios(tried, log_t)
    chosen = multiple_trial(rng, log_ratios)
    log_emulated = log_t + log_ratios
    return Proposed(tried[chosen], float(log_emulated[0] - log_emulated[chosen]), INDEPENDENT)


class _NoForm(ContrastBlocks):
    """A softmax's form that no sites have, so that code for any form computes with them."""


@contextmanager
def by_numpy() -> Iterator[None]:
    """Compute with the NumPy versions inside the block, and without kernels of a likelihood's terms."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(loading, "import_module", _module))
        stack.enter_context(patch.object(compiled_terms, "KERNELS", {}))
        stack.enter_context(patch.object(AdaptiveProposal, "_emulated", emulated_by_steps))
        for module in (block_matching, block_propagation):
            stack.enter_context(patch.object(module, "ContrastBlocks", _NoForm))
        stack.callback(loading.compiled.cache_clear)
        loading.compiled.cache_clear()
        yield


def _module(path: str) -> SimpleNamespace:
    """The stand-in for the module of kernels."""
    folder = path.rpartition(".")[2] + "."
    of_module = {name.removeprefix(folder): one for name, one in REFERENCES.items() if name.startswith(folder)}
    return SimpleNamespace(**{name: SimpleNamespace(compiled=one) for name, one in of_module.items()})
