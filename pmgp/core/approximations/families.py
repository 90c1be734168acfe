"""The two families of sites: one site for each latent value, and one for the values of several latent vectors.

Laplace's method and expectation propagation are written once. A family holds the differences: the sites' precisions are
numbers or matrices, and moments are those of one variable or of several.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pmgp.core.approximations.block_gradients import laplace_block_gradient, matched_block_gradient
from pmgp.core.approximations.block_matching import match_block_moments
from pmgp.core.approximations.block_propagation import propagated as blocks_propagated
from pmgp.core.approximations.block_propagation import propagated_from_prior
from pmgp.core.approximations.gradients import EvidenceGradient, laplace_gradient, matched_gradient
from pmgp.core.approximations.moment_matching import match_moments
from pmgp.core.approximations.propagation import Failure, propagated, propagated_from
from pmgp.core.gaussians import BlockApproximation, Posterior, Prior
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.numerics.block_matrices import ContrastBlocks

# If a sweep from a predicted start moves q further than this, in nats per site, Laplace's start is used instead.
POOR_START = 0.5


class SiteFamily(NamedTuple):
    """The steps of an approximation that depend on the family of its sites.

    - `matched`: returns q after some sweeps of moment matching; None where K turns out to be indefinite
    - `propagated_from`: sweeps by expectation propagation from sites that `start_from` made
    - `propagated_from_prior`: sweeps by expectation propagation from the prior, if Laplace's mode is no safe start
    - `propagated`: sweeps by expectation propagation from q
    - `start_from`: returns q's sites as a vector that is smooth in theta
    - `once_more`: returns q after expectation propagation, with one more sweep if that improves importance samples
    - `laplace_gradient`, `matched_gradient`: return the gradients of Laplace's log-evidence and of expectation
      propagation's; the latter is None where K turns out to be indefinite
    """

    matched: Callable[[Any, Any, int], Posterior | None]
    propagated_from: Callable[[Prior, Any, np.ndarray, float, int], Posterior | Failure]
    propagated_from_prior: Callable[[Any, Any, float, int], Posterior | Failure]
    propagated: Callable[[Any, Any, float, int], Posterior | Failure]
    start_from: Callable[[Any], np.ndarray]
    once_more: Callable[[Any, Any], Posterior]
    laplace_gradient: Callable[[Any, Any], EvidenceGradient]
    matched_gradient: Callable[[Any, Any], EvidenceGradient | None]


def _propagated_blocks_from(
    prior: Any, likelihood: BlockLikelihood, start: np.ndarray, tolerance: float, max_sweeps: int
) -> Posterior | Failure:
    conditioned = prior.conditioning()
    linear, parameters = np.split(start, [prior.vectors * prior.sites])
    if not conditioned.on(linear, likelihood.site_form.of(parameters, prior.sites)):
        return Failure.NOT_CONVERGED
    begun, largest = conditioned.approximation(np.nan, 0), POOR_START * prior.sites
    return blocks_propagated(begun, likelihood, tolerance, max_sweeps, largest) or Failure.NOT_CONVERGED


def _blocks_propagated_from_prior(
    prior: Any, likelihood: BlockLikelihood, tolerance: float, max_sweeps: int
) -> Posterior | Failure:
    # A softmax is log-concave, and a density of one value has no spike beside its mass: the mode is where that is.
    if likelihood.site_form is ContrastBlocks or prior.vectors == 1:
        return Failure.NOT_CONVERGED
    return propagated_from_prior(prior, likelihood, tolerance, max_sweeps) or Failure.NOT_CONVERGED


def _blocks_start_from(q: BlockApproximation) -> np.ndarray:
    linear, precision = q.matching or (q.linear, q.precision)
    return np.concatenate([linear, precision.parameters])


def _blocks_once_more(q: BlockApproximation, likelihood: BlockLikelihood) -> Posterior:
    """Return q after one more sweep, if its moments only nearly match.

    The sites of a softmax with more than three classes cannot match all moments. They move a share of the way in a
    sweep, and approach their fixed point more slowly than the divergence of two sweeps suggests; one more sweep makes
    importance weights vary less.
    """
    in_shares = isinstance(q.precision, ContrastBlocks) and len(q.precision.scale) > 3
    return (match_block_moments(q, likelihood, 1) or q) if in_shares else q


# A site for each latent value, exp(b_i f_i - w_i f_i^2 / 2); its start is (b, log w).
_SINGLE = SiteFamily(
    match_moments,
    lambda prior, likelihood, start, tolerance, max_sweeps: propagated_from(
        prior, likelihood, start, tolerance, max_sweeps, POOR_START * prior.size
    ),
    lambda prior, likelihood, tolerance, max_sweeps: Failure.NOT_CONVERGED,
    lambda q, likelihood, tolerance, max_sweeps: propagated(
        q.conditioned(), likelihood, tolerance, max_sweeps, iterations=q.iterations
    ),
    lambda q: np.concatenate([q.linear, np.log(q.precision)]),
    lambda q, likelihood: q,
    laplace_gradient,
    matched_gradient,
)
# A site for the C values of each observation, exp(b_i' f_i - f_i' W_i f_i / 2); its start is b and the parameters of W.
_BLOCKS = SiteFamily(
    match_block_moments,
    _propagated_blocks_from,
    _blocks_propagated_from_prior,
    lambda q, likelihood, tolerance, max_sweeps: (
        blocks_propagated(q, likelihood, tolerance, max_sweeps, np.inf) or Failure.NOT_CONVERGED
    ),
    _blocks_start_from,
    _blocks_once_more,
    laplace_block_gradient,
    matched_block_gradient,
)


def family_of(prior: Prior) -> SiteFamily:
    """Return the family of sites that a prior is conditioned on."""
    return _BLOCKS if prior.in_blocks else _SINGLE
