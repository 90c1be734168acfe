"""Moment matching on sites over several latent values each, all sites at once.

This follows `moment_matching.py`, which has one latent value per site. A site depends only on the contrasts g = H f_i,
so everything is computed in these: the site's precision is H W_i H', and if V is the covariance of g under q, the
cavity has the precision V^-1 - H W_i H'. The matching precision is approximated in the form of the likelihood's sites,
and the linear parameters are chosen for it, so that q gets the tilted means in any case.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np

from pmgp.core.approximations.moment_matching import UnknownMomentsError
from pmgp.core.gaussians import BlockApproximation, BlockConditioning
from pmgp.core.likelihoods.blocks import BlockLikelihood, BlockMoments
from pmgp.core.numerics.block_matrices import BlockMatrix, ContrastBlocks, definite, flat, stacked
from pmgp.core.numerics.compiled.loading import compiled, vectors

# Relative rounding of variances of q, which are at most those of the prior if K is positive semidefinite.
ROUNDING = 1e-6


class BlockCavities(NamedTuple):
    """q's marginals and q without each of its sites, in d contrasts.

    - `mean` (n, d): means of the cavities
    - `covariance`, `precision` (n, d, d): covariances of the cavities, and their inverses
    - `marginal_mean` (n, d): means of q
    - `marginal_covariance` (n, d, d): covariances of q
    - `site` (n, d, d): precisions of the sites
    - `linear` (n, d): linear parameters of the sites
    - `sound` (n,): whether the cavity is a normal distribution; if not, q's marginal replaces it
    - `log_site` (n,): log of the integral of the cavity times the site; zero where q's marginal replaces the cavity
    """

    mean: np.ndarray
    covariance: np.ndarray
    precision: np.ndarray
    marginal_mean: np.ndarray
    marginal_covariance: np.ndarray
    site: np.ndarray
    linear: np.ndarray
    sound: np.ndarray
    log_site: np.ndarray


class MatchedBlocks(NamedTuple):
    """Sites that match the moments of q, and expectation propagation's log p(y|theta) for the sites they replace.

    `linear` (C n,).
    """

    linear: np.ndarray
    precision: BlockMatrix
    log_evidence: float


def match_block_moments(q: BlockApproximation, likelihood: BlockLikelihood, sweeps: int) -> BlockApproximation | None:
    """Match the marginal moments of q in a fixed number of sweeps, starting from its sites.

    `likelihood`: if it does not know its tilted moments, q is returned as it is.

    Returns the new q, with the log-evidence of the old one; None where K turns out to be indefinite.
    """
    conditioned = cast(BlockConditioning, q.prior.conditioning())
    current: BlockApproximation = q
    for _ in range(sweeps):
        try:
            sites = matched_blocks(current, likelihood)
        except UnknownMomentsError:
            return q
        if sites is None or not conditioned.on(sites.linear, sites.precision):
            return None
        current = conditioned.approximation(q.log_evidence, q.iterations, q.converged)
    return current


def matched_blocks(q: BlockApproximation, likelihood: BlockLikelihood, share: float = 1.0) -> MatchedBlocks | None:
    """Return the sites that give q the tilted moments; None where a marginal covariance of q is not positive definite.

    Precisions that are expected curvatures move a `share` of the way, and means all of it.

    Raises UnknownMomentsError if the likelihood does not know its tilted moments.
    """
    contrasts = likelihood.contrasts
    cavity = block_cavities(q, contrasts)
    if cavity is None:
        return None
    near = (cavity.marginal_mean, cavity.marginal_covariance)
    try:
        tilted = likelihood.tilted_moments(cavity.mean, cavity.covariance, near)
    except np.linalg.LinAlgError:
        # Cavities that are positive definite only before rounding.
        return None
    if tilted is None:
        raise UnknownMomentsError(
            "expectation propagation needs a likelihood whose terms can be evaluated one by one; use "
            'approximation="laplace"'
        )
    linear, precision, by_site = _matched(q, contrasts, cavity, tilted, likelihood.site_form, share)
    return MatchedBlocks(linear, precision, q.log_normalizer + by_site)


def _matched(
    q: BlockApproximation,
    contrasts: np.ndarray,
    cavity: BlockCavities,
    tilted: BlockMoments,
    form: type[BlockMatrix],
    share: float,
) -> tuple[np.ndarray, BlockMatrix, float]:
    """Return the matching b and W, and the sum of the sites' parts of the log-evidence."""
    if form is ContrastBlocks and isinstance(q.precision, ContrastBlocks):
        return _matched_softmax(contrasts, cavity, tilted, q.precision.scale, share)
    sound = cavity.sound & np.isfinite(tilted.log_normalizer) & definite(tilted.covariance)
    covariance = np.where(sound[:, None, None], tilted.covariance, cavity.marginal_covariance)
    if tilted.curvature is None:
        site = np.where(sound[:, None, None], np.linalg.inv(covariance) - cavity.precision, cavity.site)
        precision = form.nearest(contrasts.T @ site @ contrasts)
    else:
        blocks = np.where(sound[:, None, None], tilted.curvature, q.precision.blocks)
        precision = q.precision.towards(form.nearest(blocks), share)
    linear = _linear(cavity, contrasts @ precision.blocks @ contrasts.T, np.where(sound[:, None], tilted.mean, 0.0))
    linear = np.where(sound[:, None], linear, cavity.linear)
    return flat(contrasts.T @ linear.T), precision, float(np.sum(tilted.log_normalizer - cavity.log_site))


def _matched_softmax(
    contrasts: np.ndarray, cavity: BlockCavities, tilted: BlockMoments, scale: np.ndarray, share: float
) -> tuple[np.ndarray, ContrastBlocks, float]:
    """Match sites of a softmax's form, with a compiled kernel."""
    n, linear, matched = len(cavity.mean), np.empty(scale.shape), np.empty(scale.shape)
    curvature = np.empty((0, scale.shape[0] ** 2)) if tilted.curvature is None else tilted.curvature.reshape(n, -1)
    of_cavities = cavity.mean, cavity.precision.reshape(n, -1), cavity.site.reshape(n, -1), cavity.linear
    of_tilted = tilted.log_normalizer, tilted.mean, tilted.covariance.reshape(n, -1), curvature
    known = vectors(contrasts, *of_cavities, cavity.sound, cavity.log_site, *of_tilted, scale)
    by_site = compiled("cavities.matched")(*known, share, linear, matched)
    return flat(linear), ContrastBlocks(matched), by_site


def block_cavities(q: BlockApproximation, contrasts: np.ndarray) -> BlockCavities | None:
    """Return q without each site, in contrasts; None where a marginal of q is not definite or wider than the prior."""
    n, d = q.prior.sites, len(contrasts)
    of_sites = q.marginals.reshape(n, -1), q.precision.blocks.reshape(n, -1), stacked(q.prior.site_variance, n)
    known = vectors(contrasts, stacked(q.site_mean, n), stacked(q.linear, n), *of_sites)
    mean, marginal_mean, linear = (np.empty((n, d)) for _ in range(3))
    rows = [np.empty((n, d * d)) for _ in range(4)]
    sound, log_site = np.empty(n), np.empty(n)
    written = mean, rows[0], rows[1], marginal_mean, rows[2], rows[3], linear, sound, log_site
    if not compiled("cavities.cavities")(*known, ROUNDING, q.prior.smallest_cavity, *written):
        return None
    covariance, precision, marginal, site = (x.reshape(n, d, d) for x in rows)
    return BlockCavities(mean, covariance, precision, marginal_mean, marginal, site, linear, sound > 0.0, log_site)


def _linear(cavity: BlockCavities, site: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the linear parameters with which sites of the given precisions give q the tilted means: (n, d)."""
    total = np.einsum("nde,ne->nd", cavity.precision + site, mean)
    return total - np.einsum("nde,ne->nd", cavity.precision, cavity.mean)
