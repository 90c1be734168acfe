"""The two families of sites: one site for each latent value, and one for the values of several latent vectors.

Laplace's method and expectation propagation are written once. A family holds the differences: the sites' precisions are
numbers or matrices, and moments are those of one variable or of several.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np

from pmgp.core.approximations.block_gradients import laplace_block_gradient, matched_block_gradient
from pmgp.core.approximations.block_matching import match_block_moments
from pmgp.core.approximations.block_propagation import propagated as blocks_propagated
from pmgp.core.approximations.gradients import EvidenceGradient, laplace_gradient, matched_gradient
from pmgp.core.approximations.moment_matching import match_moments
from pmgp.core.approximations.propagation import Failure, propagated, propagated_from
from pmgp.core.gaussians import BlockApproximation, Posterior, Prior
from pmgp.core.likelihoods.base import Likelihood, SiteLikelihood
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.numerics.block_matrices import BlockMatrix, ContrastBlocks

# If a sweep from a predicted start moves q further than this, in nats a site, Laplace's start is used instead.
POOR_START = 0.5


class SiteFamily(Protocol):
    """The steps of an approximation that depend on the family of its sites."""

    def matched(self, q: Posterior, likelihood: Any, sweeps: int) -> Posterior | None:
        """Return q after `sweeps` sweeps of moment matching; None where K turns out to be indefinite."""

    def propagated_from(
        self, prior: Prior, likelihood: Any, start: np.ndarray, tolerance: float, max_sweeps: int
    ) -> Posterior | Failure:
        """Sweep by expectation propagation from sites that :meth:`start_from` made."""

    def propagated(self, q: Posterior, likelihood: Any, tolerance: float, max_sweeps: int) -> Posterior | Failure:
        """Sweep by expectation propagation from q."""

    def start_from(self, q: Posterior) -> np.ndarray:
        """Return q's sites as a vector that is smooth in theta."""

    def once_more(self, q: Posterior, likelihood: Any) -> Posterior:
        """Return q after expectation propagation, with one more sweep if that improves importance samples."""

    def laplace_gradient(self, q: Posterior, likelihood: Any) -> EvidenceGradient:
        """Return the gradient of Laplace's log-evidence."""

    def matched_gradient(self, q: Posterior, likelihood: Any) -> EvidenceGradient | None:
        """Return the gradient of expectation propagation's log-evidence; None where K is indefinite."""


class SingleSites:
    """A site for each latent value, exp(b_i f_i - w_i f_i^2 / 2)."""

    def matched(self, q: Posterior, likelihood: Likelihood, sweeps: int) -> Posterior | None:
        """See `SiteFamily`."""
        return match_moments(q, likelihood, sweeps)

    def propagated_from(
        self, prior: Prior, likelihood: Likelihood, start: np.ndarray, tolerance: float, max_sweeps: int
    ) -> Posterior | Failure:
        """See `SiteFamily`."""
        return propagated_from(prior, likelihood, start, tolerance, max_sweeps, POOR_START * prior.size)

    def propagated(
        self, q: Posterior, likelihood: Likelihood, tolerance: float, max_sweeps: int
    ) -> Posterior | Failure:
        """See `SiteFamily`."""
        return propagated(q.conditioned(), likelihood, tolerance, max_sweeps, iterations=q.iterations)

    def start_from(self, q: Posterior) -> np.ndarray:
        """Return (b, log w): (2n,)."""
        return np.concatenate([q.linear, np.log(q.precision)])

    def once_more(self, q: Posterior, likelihood: Likelihood) -> Posterior:
        """Return q as it is: its moments match."""
        return q

    def laplace_gradient(self, q: Posterior, likelihood: SiteLikelihood) -> EvidenceGradient:
        """See `SiteFamily`."""
        return laplace_gradient(q, likelihood)

    def matched_gradient(self, q: Posterior, likelihood: Likelihood) -> EvidenceGradient | None:
        """See `SiteFamily`."""
        return matched_gradient(q, likelihood)


class BlockSites:
    """A site for the C values of each observation, exp(b_i' f_i - f_i' W_i f_i / 2)."""

    def matched(self, q: BlockApproximation, likelihood: BlockLikelihood, sweeps: int) -> Posterior | None:
        """See `SiteFamily`."""
        return match_block_moments(q, likelihood, sweeps)

    def propagated_from(
        self, prior: Any, likelihood: BlockLikelihood, start: np.ndarray, tolerance: float, max_sweeps: int
    ) -> Posterior | Failure:
        """See `SiteFamily`."""
        conditioned = prior.conditioning()
        linear, parameters = np.split(start, [prior.size])
        if not conditioned.on(linear, likelihood.site_form.of(parameters, prior.sites)):
            return Failure.NOT_CONVERGED
        begun, largest = conditioned.approximation(np.nan, 0), POOR_START * prior.sites
        return blocks_propagated(begun, likelihood, tolerance, max_sweeps, largest) or Failure.NOT_CONVERGED

    def propagated(
        self, q: BlockApproximation, likelihood: BlockLikelihood, tolerance: float, max_sweeps: int
    ) -> Posterior | Failure:
        """See `SiteFamily`."""
        return blocks_propagated(q, likelihood, tolerance, max_sweeps, np.inf) or Failure.NOT_CONVERGED

    def start_from(self, q: BlockApproximation) -> np.ndarray:
        """Return b, and the parameters of W."""
        linear, precision = q.matching or (q.linear, q.precision)
        return np.concatenate([linear, precision.parameters])

    def once_more(self, q: BlockApproximation, likelihood: BlockLikelihood) -> Posterior:
        """Return q after one more sweep, if its moments only nearly match.

        Sites that cannot match all moments move a share of the way in a sweep, and approach their fixed point more
        slowly than the divergence of two sweeps suggests; one more sweep makes importance weights vary less.
        """
        return (match_block_moments(q, likelihood, 1) or q) if _in_shares(q.precision) else q

    def laplace_gradient(self, q: BlockApproximation, likelihood: BlockLikelihood) -> EvidenceGradient:
        """See `SiteFamily`."""
        return laplace_block_gradient(q, likelihood)

    def matched_gradient(self, q: BlockApproximation, likelihood: BlockLikelihood) -> EvidenceGradient | None:
        """See `SiteFamily`."""
        return matched_block_gradient(q, likelihood)


_SINGLE, _BLOCKS = SingleSites(), BlockSites()


def family_of(prior: Prior) -> SiteFamily:
    """Return the family of sites that a prior is conditioned on."""
    return cast(SiteFamily, _SINGLE if prior.vectors == 1 else _BLOCKS)


def _in_shares(sites: BlockMatrix) -> bool:
    """Return whether sites are those of a softmax with too many classes to match all covariances."""
    return isinstance(sites, ContrastBlocks) and len(sites.scale) > 3
