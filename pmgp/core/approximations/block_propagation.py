"""Expectation propagation for several latent vectors: sweeps over all sites until q matches."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import cast

import numpy as np

from pmgp.core.approximations.block_matching import MatchedBlocks, matched_blocks
from pmgp.core.gaussians import BlockApproximation, BlockConditioning
from pmgp.core.gaussians.held import CoupledPrior
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.numerics.block_matrices import ContrastBlocks, flat, stacked
from pmgp.core.numerics.compiled.loading import compiled, vectors

# Smallest fraction of the way to the matching sites that a sweep moves.
SMALLEST_STEP = 0.05
# Fraction for precisions that are expected curvatures, from the second sweep on: a full step would overshoot.
SHARE = 0.6
# Fraction for the first sweep, before it is known how far sites overshoot together.
FIRST_STEP = 0.75
# If sweeps begin at the prior: the largest fraction, and the precision of the first sites relative to the prior's.
LARGEST_STEP, FAINT = 0.5, 1e-6
# Sites with this sharpness may be a spike beside the mass. Quadrature that begins at the prior does not resolve it.
SHARP = 1e5


def propagated(
    start: BlockApproximation, likelihood: BlockLikelihood, tolerance: float, max_sweeps: int, largest: float
) -> BlockApproximation | None:
    """Sweep until a sweep would move q by less than a tolerance, in nats.

    If the matching sites differ by db and dW, q would move by [r' S r + tr(S dW S dW) / 2] / 2 nats to second order,
    with r = db - dW mu. The first term is nearly all of that. It is a change of the mean by S r, which is made at the
    end, because it needs no further factorization. For the second term the sites' own blocks are enough.

    `largest`: the search fails if a sweep moves q further than this.

    Returns None if the search fails.

    Raises UnknownMomentsError if the likelihood does not know its tilted moments.
    """
    # A badly predicted start causes overflow, which the divergence shows.
    with np.errstate(all="ignore"):
        return _swept(start, likelihood, tolerance, max_sweeps, largest, 1.0)


def propagated_from_prior(
    prior: CoupledPrior, likelihood: BlockLikelihood, tolerance: float, max_sweeps: int
) -> BlockApproximation | None:
    """Sweep in short steps from the prior itself; see :func:`propagated`. Return None also if sites end sharp.

    Laplace's mode may be where no mass is: with a process for the noise's scale, at f = y with no noise at all.
    """
    conditioned, n = cast(BlockConditioning, prior.conditioning()), prior.sites
    with np.errstate(all="ignore"):
        precision = FAINT / stacked(prior.site_variance, n)
        # A prior of hardly any variance leaves no room for a site.
        if not np.isfinite(precision).all():
            return None
        faint = np.einsum("ci,cd->icd", precision, np.eye(prior.vectors))
        if not conditioned.on(np.zeros(precision.size), likelihood.site_form.nearest(faint)):
            return None
        start = conditioned.approximation(np.nan, 0)
        found = _swept(start, likelihood, tolerance, max_sweeps, np.inf, LARGEST_STEP)
    return found if found is not None and isfinite(found.log_evidence) and found.sharpness < SHARP else None


def _swept(
    start: BlockApproximation,
    likelihood: BlockLikelihood,
    tolerance: float,
    max_sweeps: int,
    largest: float,
    longest: float,
) -> BlockApproximation | None:
    current, conditioned = start, cast(BlockConditioning, start.prior.conditioning())
    step, last = min(FIRST_STEP, longest), None
    for sweep in range(1, max_sweeps + 1):
        matched = matched_blocks(current, likelihood, SHARE if sweep > 1 else 1.0)
        if matched is None:
            return None
        required, spread = _required_change(current, matched)
        if last is not None:
            step = min(_secant_step(step * last, last - required, current), longest)
        linear = current.linear + step * (matched.linear - current.linear)
        precision = current.precision.towards(matched.precision, step)
        pulled = current.prior.from_sites(required)
        shift = current.product(pulled)
        # Rounding of very large numbers may give any value, even one far below zero: that is not a small change.
        if 0.5 * abs(float(pulled @ shift)) + 0.25 * abs(spread) < tolerance:
            return replace(
                current,
                linear=current.linear + step * required,
                mean=current.mean + step * shift,
                log_evidence=matched.log_evidence,
                iterations=start.iterations + sweep,
                matching=(linear, precision),
            )
        if not conditioned.on(linear, precision):
            return None
        moved = conditioned.approximation(matched.log_evidence, start.iterations + sweep)
        if not abs(_divergence(current, moved)) / step**2 < largest:
            return None
        current, last = moved, required
    return None


def _secant_step(moved: np.ndarray, reduced: np.ndarray, q: BlockApproximation) -> float:
    """Return the length of the next step, given how much the last one reduced the change (Barzilai and Borwein 1988).

    The metric is q's covariance; see `propagation._secant_step` for one latent vector: (C n,) arrays.
    """
    weighted = q.moved_at_sites(reduced)
    square = float(reduced @ weighted)
    return float(np.clip(float(moved @ weighted) / square, SMALLEST_STEP, 1.0)) if square > 0.0 else 1.0


def _required_change(q: BlockApproximation, matched: MatchedBlocks) -> tuple[np.ndarray, float]:
    """Return r = db - dW mu, and the sum of tr(V dW V dW) over the sites' own blocks V of S."""
    if isinstance(q.precision, ContrastBlocks) and isinstance(matched.precision, ContrastBlocks):
        n, scale = q.prior.sites, q.precision.scale
        required = np.empty(scale.shape)
        of_q = q.marginals.reshape(n, -1), scale, stacked(q.site_mean, n), stacked(q.linear, n)
        spread = compiled("cavities.required_change")(
            *vectors(*of_q, matched.precision.scale, stacked(matched.linear, n)), required
        )
        return flat(required), spread
    changed = q.marginals @ (matched.precision.blocks - q.precision.blocks)
    required = matched.linear - q.linear - matched.precision.product(q.site_mean) + q.precision.product(q.site_mean)
    return required, float(np.einsum("icd,idc->", changed, changed))


def _divergence(old: BlockApproximation, new: BlockApproximation) -> float:
    """Return the Kullback-Leibler divergence of the new q from the old one, in nats; both have the same prior."""
    spread = old.shrinkage.log_determinant - new.shrinkage.log_determinant
    if isinstance(old.precision, ContrastBlocks) and isinstance(new.precision, ContrastBlocks):
        n = old.prior.sites
        of_old = old.precision.scale, stacked(old.site_mean, n), stacked(old.linear, n)
        of_new = new.precision.scale, stacked(new.site_mean, n), stacked(new.linear, n)
        known = vectors(old.marginals.reshape(n, -1), *of_old, *of_new)
        return 0.5 * (spread + compiled("cavities.divergence")(*known))
    spread += float(np.einsum("icd,icd->", old.marginals, new.precision.blocks - old.precision.blocks))
    before, after = old.site_mean, new.site_mean
    linear = new.linear - old.linear - new.precision.product(before) + old.precision.product(before)
    return 0.5 * (spread + float((after - before) @ linear))
