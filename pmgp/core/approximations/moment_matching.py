"""Moment matching on the sites of an approximation: expectation propagation, all sites at once.

As in section 2.1.2 of the pseudo-marginal article, each site is replaced by the one that gives q the mean and variance
of the cavity distribution (q without the site) times the exact likelihood term. With d = diag(B^-1),

    variances of q     v = (1 - d) / w,
    cavity variances   1 / (1/v - w) = (1 - d) / (w d),      cavity means  (mu - v b) / d,

which needs no n x n matrix besides the factor of B, and takes no difference where a site dominates (d near 0).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from pmgp.core.gaussians import SMALLEST_PRECISION, ConditionedPrior, Posterior
from pmgp.core.likelihoods.base import Likelihood
from pmgp.core.numerics.compiled.loading import compiled, vectors
from pmgp.core.numerics.compiled.outcomes import INDEFINITE
from pmgp.core.numerics.quadrature import TiltedMoments

# Up to rounding, diagonal elements of B^-1 are at most one if the covariance is positive semidefinite.
LARGEST_SHARE = 1.0 + 1e-6


class Terms(Protocol):
    """The functions that moment matching needs of a likelihood, or of anything else that factorizes over f."""

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments | None:
        """Return the moments of the terms times N(f_i|mean, variance); see `Likelihood`."""


class UnknownMomentsError(ValueError):
    """The likelihood does not know its tilted moments."""


class MatchedSites(NamedTuple):
    """Sites that match the moments of an approximation, and properties of the sites that they replace.

    `linear`, `precision` (n,): the new sites; `log_evidence`: expectation propagation's log p(y|theta) for the sites
    that are replaced; `marginal_variance` (n,): variances of q with the sites that are replaced; `log_determinant`:
    log-determinant of B with them.
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


Conditioned = Posterior | ConditionedPrior
"""Anything with sites, a mean and the diagonal of B^-1."""


def match_moments(approximation: Posterior, likelihood: Likelihood, sweeps: int) -> Posterior | None:
    """Match the marginal moments of q, starting from its sites.

    The number of sweeps is fixed, so that q stays a function of theta. Each costs a triangular inversion and a
    factorization.

    `likelihood`: if it does not know its tilted moments, q is returned as it is.

    Returns the new q, with the log-evidence of the old one; None where K turns out to be indefinite.
    """
    if sweeps == 0:
        return approximation
    conditioned = approximation.conditioned()
    # Steps of length one, without stopping early.
    settings = -np.inf, np.inf, 1.0, SMALLEST_PRECISION, LARGEST_SHARE, sweeps
    reached = conditioned.swept(likelihood, settings)
    if reached is None:
        try:
            sound = _match_step_by_step(conditioned, likelihood, sweeps)
        except UnknownMomentsError:
            return approximation
    else:
        sound = reached.status != INDEFINITE
    if not sound:
        return None
    return conditioned.approximation(approximation.log_evidence, approximation.iterations, approximation.converged)


def _match_step_by_step(conditioned: ConditionedPrior, likelihood: Likelihood, sweeps: int) -> bool:
    for _ in range(sweeps):
        sites = matched_sites(conditioned, likelihood)
        if sites is None or not conditioned.on(sites.linear, sites.precision):
            return False
    return True


def matched_sites(approximation: Conditioned, likelihood: Terms) -> MatchedSites | None:
    """Return the sites that give q the tilted moments; None where K turns out to be indefinite.

    `approximation`: a `ConditionedPrior` may lose the factor made from its sites.

    Raises UnknownMomentsError if the likelihood does not know its tilted moments.
    """
    cavity = cavities(approximation)
    if cavity is None:
        return None
    near = (approximation.mean, cavity.marginal_variance)
    tilted = likelihood.tilted_moments(cavity.mean, cavity.variance, near)
    if tilted is None:
        raise UnknownMomentsError(
            "expectation propagation needs a likelihood whose terms can be evaluated one by one, one for each latent "
            'value; use approximation="laplace"'
        )
    return _matched(approximation, cavity, tilted)


def _matched(approximation: Conditioned, cavity: Cavities, tilted: TiltedMoments) -> MatchedSites:
    linear, precision = sites = np.empty((2, len(tilted.mean)))
    by_site = compiled("moments.matched")(
        *vectors(approximation.linear, approximation.precision),
        *cavity[:2],
        cavity.inverse_diagonal,
        *vectors(*tilted),
        SMALLEST_PRECISION,
        sites,
    )
    log_evidence = approximation.log_normalizer + by_site
    return MatchedSites(linear, precision, log_evidence, cavity.marginal_variance, approximation.log_determinant)


def cavities(approximation: Conditioned, inverse_diagonal: np.ndarray | None = None) -> Cavities | None:
    """Return q without each of its sites; None where a marginal variance of q is negative.

    K is then indefinite, although B is not. The diagonal of B^-1 is computed if it is not given.
    """
    inverse_diagonal = approximation.inverse_diagonal if inverse_diagonal is None else inverse_diagonal
    q, mean, variance = approximation, *np.empty((2, len(inverse_diagonal)))
    marginal = q.variance_given(inverse_diagonal)
    known = vectors(q.mean, q.linear, marginal, inverse_diagonal)
    sound = compiled("moments.cavities")(q.largest_variance, *known, LARGEST_SHARE, mean, variance)
    return Cavities(mean, variance, marginal, inverse_diagonal) if sound else None
