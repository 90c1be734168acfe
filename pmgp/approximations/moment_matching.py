"""Sweeps of moment matching on the sites of an approximation: expectation propagation, all sites at once.

Laplace's approximation of a skewed posterior has its mean in the wrong place, and importance weights grow without
bound where the posterior has mass that q lacks. Section 2.1.2 of the pseudo-marginal article: each site is replaced by
the one that gives q the mean and variance of the cavity distribution times the exact likelihood term.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pmgp import linalg
from pmgp.latent.sites import SMALLEST_PRECISION, SiteApproximation, condition_on_sites
from pmgp.likelihoods.base import Likelihood

__all__ = ["match_moments"]


def match_moments(approximation: SiteApproximation, likelihood: Likelihood, sweeps: int) -> SiteApproximation:
    """Match the marginal moments of q, starting from its sites.

    The number of sweeps is fixed, so that q stays a function of theta. Each costs a triangular inversion and a
    factorization; diag(Sigma) = (1 - diag(B^-1)) / w needs no other n x n matrix.

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
        sites = _matched_sites(approximation, likelihood)
        if sites is None:
            return approximation
        linear, precision = sites
        mean, buffer = condition_on_sites(approximation.prior, linear, precision, buffer)
        approximation = replace(approximation, linear=linear, precision=precision, mean=mean, factor=buffer)
    return approximation


def _matched_sites(approximation: SiteApproximation, likelihood: Likelihood) -> tuple[np.ndarray, np.ndarray] | None:
    w, b = approximation.precision, approximation.linear
    variance = (1.0 - linalg.inverse_diagonal(approximation.factor)) / w
    cavity_precision = 1.0 / variance - w
    # Rounding can leave a cavity without precision where a site dominates; such sites stay as they are.
    sound = cavity_precision > 1e-10
    cavity_variance = 1.0 / np.where(sound, cavity_precision, 1.0)
    cavity_linear = approximation.mean / variance - b
    tilted = likelihood.tilted_moments(cavity_linear * cavity_variance, cavity_variance, (approximation.mean, variance))
    if tilted is None:
        return None
    mean, tilted_variance = tilted
    sound &= np.isfinite(mean) & (tilted_variance > 0.0)
    tilted_precision = 1.0 / np.where(sound, tilted_variance, 1.0)
    precision = np.where(sound, np.maximum(tilted_precision - cavity_precision, SMALLEST_PRECISION), w)
    # With a precision that was raised to the floor, this still gives the tilted mean.
    linear = np.where(sound, mean * (cavity_precision + precision) - cavity_linear, b)
    return linear, precision
