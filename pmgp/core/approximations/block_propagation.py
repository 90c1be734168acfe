"""Expectation propagation for several latent vectors: sweeps over all sites until q matches."""

from __future__ import annotations

import numpy as np

from pmgp.core.approximations.block_matching import matched_blocks
from pmgp.core.gaussians import BlockApproximation, BlockConditioning
from pmgp.core.likelihoods.blocks import BlockLikelihood
from pmgp.core.numerics.block_matrices import ContrastBlocks, stacked
from pmgp.core.numerics.compiled.loading import compiled, vectors

__all__ = ["propagated"]

# Fraction of the way to the matching sites that a sweep goes at least.
SMALLEST_STEP = 0.05
# The same of precisions that are expected curvatures, from the second sweep on: all the way they overshoot by as much.
SHARE = 0.6


def propagated(
    start: BlockApproximation, likelihood: BlockLikelihood, tolerance: float, max_sweeps: int, largest: float
) -> BlockApproximation | None:
    """Sweep until a sweep moves q by less than a tolerance, in nats.

    Where a sweep moves q further than the one before, the sites overshoot together, and steps are halved.

    Parameters
    ----------
    start : BlockApproximation
    likelihood : BlockLikelihood
    tolerance : float
    max_sweeps : int
    largest : float
        It fails where a sweep moves q further than this.

    Returns
    -------
    BlockApproximation or None
        None where it has failed.

    Raises
    ------
    UnknownMomentsError
        If the likelihood does not know its tilted moments.
    """
    # A start that was predicted far off makes numbers too large, which the divergence shows.
    with np.errstate(all="ignore"):
        return _swept(start, likelihood, tolerance, max_sweeps, largest)


def _swept(
    start: BlockApproximation, likelihood: BlockLikelihood, tolerance: float, max_sweeps: int, largest: float
) -> BlockApproximation | None:
    current, conditioned = start, BlockConditioning(start.prior)
    step, last = 1.0, np.inf
    for sweep in range(1, max_sweeps + 1):
        matched = matched_blocks(current, likelihood, SHARE if sweep > 1 else 1.0)
        if matched is None:
            return None
        linear = current.linear + step * (matched.linear - current.linear)
        if not conditioned.on(linear, current.precision.towards(matched.precision, step)):
            return None
        moved = conditioned.approximation(matched.log_evidence, start.iterations + sweep)
        # Of numbers too large rounding makes any other, far below zero too: that is no small change.
        divergence = abs(_divergence(current, moved)) / step**2
        if divergence < tolerance:
            return moved
        if not divergence < largest:
            return None
        step = max(0.5 * step, SMALLEST_STEP) if divergence > last else step
        current, last = moved, divergence
    return None


def _divergence(old: BlockApproximation, new: BlockApproximation) -> float:
    """Kullback-Leibler divergence of the new q from the old one, in nats, of the same prior."""
    spread = old.shrinkage.log_determinant - new.shrinkage.log_determinant
    kernel = compiled("cavities.divergence")
    if kernel is not None and isinstance(old.precision, ContrastBlocks) and isinstance(new.precision, ContrastBlocks):
        n = old.prior.sites
        of_old = old.precision.scale, stacked(old.mean, n), stacked(old.linear, n)
        of_new = new.precision.scale, stacked(new.mean, n), stacked(new.linear, n)
        return 0.5 * (spread + kernel(*vectors(old.marginals.reshape(n, -1), *of_old, *of_new)))
    spread += float(np.einsum("icd,icd->", old.marginals, new.precision.blocks - old.precision.blocks))
    linear = new.linear - old.linear - new.precision.product(old.mean) + old.precision.product(old.mean)
    return 0.5 * (spread + float((new.mean - old.mean) @ linear))
