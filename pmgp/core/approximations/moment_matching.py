"""Moment matching on the sites of an approximation: expectation propagation, all sites at once.

Section 2.1.2 of the pseudo-marginal article: each site is replaced by the one that gives q the mean and variance of the
cavity distribution (q without the site) times the exact likelihood term. With d = diag(B^-1),

    variances of q     v = (1 - d) / w,
    cavity variances   1 / (1/v - w) = (1 - d) / (w d),      cavity means  (mu - v b) / d,

which needs no n x n matrix beside the factor of B and does not subtract where a site dominates (d near 0).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pmgp.core.gaussians.sites import SMALLEST_PRECISION, SiteApproximation, condition_on_sites
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics import linalg

__all__ = ["Cavities", "MatchedSites", "cavities", "match_moments", "matched_sites"]

# Of diagonal elements of B^-1, which are at most one for a covariance that is positive semidefinite.
ROUNDING = 1e-6


class MatchedSites(NamedTuple):
    """Sites that match the moments of an approximation, and what is known of the approximation they replace.

    Attributes
    ----------
    linear, precision : (n,) array
        The new sites.
    log_evidence : float
        Expectation propagation's log p(y|theta) for the sites that are replaced.
    marginal_variance : (n,) array
        Variances of q with the sites that are replaced.
    log_determinant : float
        Log-determinant of B with them.
    """

    linear: np.ndarray
    precision: np.ndarray
    log_evidence: float
    marginal_variance: np.ndarray
    log_determinant: float


class Cavities(NamedTuple):
    """Means and variances of the cavities, the variances of q's marginals, and diag(B^-1): (n,) arrays."""

    mean: np.ndarray
    variance: np.ndarray
    marginal_variance: np.ndarray
    inverse_diagonal: np.ndarray


def match_moments(approximation: SiteApproximation, likelihood: Likelihood, sweeps: int) -> SiteApproximation:
    """Match the marginal moments of q, starting from its sites.

    The number of sweeps is fixed, so that q stays a function of theta. Each costs a triangular inversion and a
    factorization.

    Parameters
    ----------
    approximation : SiteApproximation
    likelihood : Likelihood
        If it does not know its tilted moments, nothing is changed.
    sweeps : int

    Returns
    -------
    SiteApproximation
        With the log-evidence of the one that was given.
    """
    buffer: np.ndarray | None = None
    for _ in range(sweeps):
        sites = matched_sites(approximation, likelihood)
        if sites is None:
            return approximation
        mean, buffer = condition_on_sites(approximation.prior, sites.linear, sites.precision, buffer)
        approximation = replace(approximation, linear=sites.linear, precision=sites.precision, mean=mean, factor=buffer)
    return approximation


def matched_sites(
    approximation: SiteApproximation, likelihood: Likelihood, *, overwrite: bool = False
) -> MatchedSites | None:
    """The sites that give q the tilted moments; None for a likelihood that does not know them.

    Parameters
    ----------
    approximation : SiteApproximation
    likelihood : Likelihood
    overwrite : bool
        Destroy the approximation's factor of B, which saves an n x n buffer.
    """
    log_normalizer, log_determinant = approximation.log_normalizer, linalg.log_determinant(approximation.factor)
    cavity = cavities(approximation, overwrite=overwrite)
    near = (approximation.mean, cavity.marginal_variance)
    tilted = likelihood.tilted_moments(cavity.mean, cavity.variance, near)
    if tilted is None:
        return None
    sound = np.isfinite(tilted.mean) & (tilted.variance > 0.0)
    # Where a term is not log-concave the matching site may have a negative precision; it is raised to almost zero, and
    # q keeps the tilted mean.
    difference = 1.0 / np.where(sound, tilted.variance, 1.0) - 1.0 / cavity.variance
    precision = np.where(sound, np.maximum(difference, SMALLEST_PRECISION), approximation.precision)
    linear = np.where(sound, tilted.mean, 0.0) * (1.0 / cavity.variance + precision) - cavity.mean / cavity.variance
    linear = np.where(sound, linear, approximation.linear)
    log_evidence = log_normalizer + float(np.sum(tilted.log_normalizer - _log_site_normalizer(approximation, cavity)))
    return MatchedSites(linear, precision, log_evidence, cavity.marginal_variance, log_determinant)


def cavities(approximation: SiteApproximation, *, overwrite: bool = False) -> Cavities:
    """Q without each of its sites, one by one; with `overwrite` its factor of B is lost.

    Raises
    ------
    NotPositiveDefiniteError
        If a marginal variance of q is negative: K is indefinite, and not so much that B were too.
    """
    inverse_diagonal = linalg.inverse_diagonal(approximation.factor, overwrite=overwrite)
    if inverse_diagonal.max() > 1.0 + ROUNDING:
        raise linalg.NotPositiveDefiniteError("the covariance gives a latent value a negative posterior variance")
    prior_variance = approximation.prior.covariance.diagonal()
    marginal = (1.0 - inverse_diagonal) / approximation.precision
    # Beside a prior that leaves next to no variance, what the sites take from it is lost in rounding.
    marginal = np.where(marginal > 0.0, marginal, prior_variance)
    # A cavity is no wider than the prior; rounding would make it so where a precision is next to nothing.
    variance = np.minimum(marginal / inverse_diagonal, prior_variance)
    mean = (approximation.mean - approximation.linear * marginal) / inverse_diagonal
    return Cavities(mean, variance, marginal, inverse_diagonal)


def _log_site_normalizer(approximation: SiteApproximation, cavity: Cavities) -> np.ndarray:
    """Log of the integral of the cavity N(f|c, s) times exp(b f - w f^2 / 2), where 1 + s w = 1 / d.

    With log Z_q it makes up the evidence of expectation propagation, log Z_q + sum_i [log Z^_i - this]: q's normalizer
    with each site's share of it replaced by that of the exact term. It is stationary in the sites where they match.
    """
    b, w, c, d = approximation.linear, approximation.precision, cavity.mean, cavity.inverse_diagonal
    return 0.5 * np.log(d) + d * (b * c + 0.5 * (b * b * cavity.variance - w * c * c))
