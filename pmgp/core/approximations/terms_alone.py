"""A normal density in place of each term of the likelihood, found from that term alone.

Newton's method follows the curvature of log p(y|f). A density with a kink, such as Laplace's, has none. In a steep tail
a step is about one deviation of the noise, however far away the mode is. The moments of one term times the prior's
marginal are integrals over one variable, which need no derivatives. Sites with these moments, one for each term, put q
where the posterior is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmgp.core.approximations.moment_matching import matched_sites
from pmgp.core.gaussians import Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood

# The nodes of the quadrature follow the moments until these change by less than this share of a deviation. In a round
# the deviation can fall to a sixth; it is not followed below this share of the prior's variance.
SAME, MOST_ROUNDS, NARROWEST = 0.1, 40, 1e-26


class Moments(NamedTuple):
    """Means and variances: (n,) arrays."""

    mean: np.ndarray
    variance: np.ndarray


def approximation_by_terms(prior: Prior, likelihood: Likelihood, iterations: int = 0) -> Posterior | None:
    """Return q with the site of each term alone, marked as not converged; None where there is no such q.

    Its log-evidence is that of expectation propagation for these sites. `iterations`: number of earlier ones, to which
    one is added.
    """
    if prior.in_blocks or not prior.is_finite:
        return None
    conditioned, found = prior.conditioning(), _moments(prior, likelihood)
    if found is None:
        return None
    # The site is the ratio of the two normal densities.
    precision = np.clip(1.0 / found.variance - 1.0 / prior.variance, *conditioned.precisions)
    linear = (precision + 1.0 / prior.variance) * found.mean - prior.mean / prior.variance
    if not conditioned.on(linear, precision):
        return None
    matched = matched_sites(conditioned, likelihood)
    if matched is None or not conditioned.on(linear, precision):
        return None
    return conditioned.approximation(matched.log_evidence, iterations + 1, converged=False)


def _moments(prior: Prior, likelihood: Likelihood) -> Moments | None:
    """Return the moments of each term times the prior's marginal; None if they are not known, or not finite."""
    marginal = Moments(prior.mean, prior.variance)
    near, before = None, marginal
    for _ in range(MOST_ROUNDS):
        tilted = likelihood.tilted_moments(*marginal, near)
        if tilted is None or not np.isfinite(tilted.log_normalizer).all():
            return None
        near = Moments(tilted.mean, np.maximum(tilted.variance, NARROWEST * marginal.variance))
        moved = np.abs(near.mean - before.mean) / np.sqrt(near.variance)
        if max(moved.max(), np.abs(np.log(near.variance / before.variance)).max()) < SAME:
            break
        before = near
    return near
