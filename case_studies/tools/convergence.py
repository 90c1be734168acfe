"""R-hat of Gelman and Rubin (1992) at checkpoints, from means and variances that each chain leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

__all__ = ["Moments", "largest_rhat", "moments_at", "rhat_at"]


class Moments(NamedTuple):
    """Moments of one chain's first draws, at c checkpoints: R-hat needs no more, so that the draws can be let go.

    Attributes
    ----------
    means : (c, n) array
    variances : (c, n) array
        With denominator draws - 1.
    """

    means: np.ndarray
    variances: np.ndarray


def moments_at(draws: np.ndarray, checkpoints: Sequence[int]) -> Moments:
    """Moments of the first draws.

    Parameters
    ----------
    draws : (t, n) array
        One chain of n variables.
    checkpoints : sequence of int
        Numbers of draws, from 2 to t.

    Raises
    ------
    ValueError
        For a checkpoint outside.
    """
    if min(checkpoints) < 2 or max(checkpoints) > len(draws):
        raise ValueError(f"checkpoints must lie between 2 and the {len(draws)} draws there are, not {checkpoints}")
    means = np.stack([draws[:count].mean(axis=0) for count in checkpoints])
    variances = np.stack([draws[:count].var(axis=0, ddof=1) for count in checkpoints])
    return Moments(means, variances)


def rhat_at(chains: Sequence[Moments], checkpoints: Sequence[int]) -> np.ndarray:
    """R-hat, not split and not rank-normalized, as the articles use it; ArviZ's method "identity".

    Parameters
    ----------
    chains : sequence of Moments
        Moments of at least two chains.
    checkpoints : sequence of int
        Those that the moments are of.

    Returns
    -------
    (c, n) array
        Infinite where no chain has moved.

    Raises
    ------
    ValueError
        For a single chain.
    """
    if len(chains) < 2:
        raise ValueError("R-hat compares chains, there is only one")
    counts = np.asarray(checkpoints, dtype=float)[:, None]
    between = counts * np.var([chain.means for chain in chains], axis=0, ddof=1)
    within = np.mean([chain.variances for chain in chains], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(within > 0.0, between / within, np.inf)
    return np.sqrt((ratio + counts - 1.0) / counts)


def largest_rhat(chains: Sequence[Moments], checkpoints: Sequence[int]) -> np.ndarray:
    """Return the largest R-hat over the variables at each of c checkpoints; not a number for a single chain."""
    if len(chains) == 1:
        return np.full(len(checkpoints), np.nan)
    return rhat_at(chains, checkpoints).max(axis=1)
