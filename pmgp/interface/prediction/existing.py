"""Expectations that do not exist at some draws of the posterior, and so have no average over them."""

from __future__ import annotations

import warnings
from collections.abc import Collection

import numpy as np


def existing(averages: dict[str, np.ndarray], latent: Collection[str], stacklevel: int) -> dict[str, np.ndarray]:
    """Return the averages without those that are not numbers, with a warning; those in `latent` always exist."""
    missing = [name for name, values in averages.items() if name not in latent and np.isnan(values).any()]
    if missing:
        warnings.warn(
            f"{', '.join(map(repr, missing))} left out: at some draws of the posterior the distribution of an "
            "observation has none, since its tails are too heavy. pmgp.sample_predictions draws observations, whose "
            "medians and quantiles exist; a prior that keeps the shape of the distribution above the limit avoids this",
            stacklevel=stacklevel + 1,
        )
    return {name: values for name, values in averages.items() if name not in missing}
