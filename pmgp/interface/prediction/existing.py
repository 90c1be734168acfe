"""Expectations that do not exist at some draws of the posterior, and so have no average over them."""

from __future__ import annotations

import warnings

import numpy as np


def existing(averages: dict[str, np.ndarray], stacklevel: int) -> dict[str, np.ndarray]:
    """Return the averages without those that are not numbers, with a warning."""
    missing = [name for name, values in averages.items() if np.isnan(values).any()]
    if missing:
        warnings.warn(
            f"{', '.join(map(repr, missing))} cannot be given: at some draws of the posterior, the distribution of an "
            "observation has tails too heavy for it to exist. Use medians and quantiles of the observations that "
            "pmgp.sample_predictions draws, or a prior that keeps such tails away",
            stacklevel=stacklevel + 1,
        )
    return {name: values for name, values in averages.items() if name not in missing}
