"""A search for observations whose likelihood has several maxima as a function of f, as that of an angle has.

The posterior may then have several modes. An approximation around one of them misses the others, and its error shows
neither in the spread of the estimates nor, where all chains start alike, in R-hat.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# Values of f, in deviations of its prior about the mean, at which the terms are evaluated.
POSITIONS = np.linspace(-3.5, 3.5, 57)
# A maximum counts if it is so many nats above the lowest value between it and a higher one, and has this share of the
# higher one's height above that value. Narrow maxima fall between the positions, so that their heights are uncertain.
# Behind it the function must fall by a share of what it rose by: one that tends to a constant has no mode there.
DEPTH, SHARE, FALL = 1.5, 0.5, 0.1
# The largest number of observations that are looked at, evenly spaced.
MOST = 2000


def several_maxima(parts: Any) -> str | None:
    """Return which observation has a likelihood with several maxima in f at the initial theta, with advice, or None.

    `parts` is a model that has been taken apart. Each of several latent vectors or predictors is moved by itself.
    """
    if parts.terms is None:
        return None
    mean, variance = parts.initial_moments
    for vector in parts.latent_vector.alone:
        deviation = np.zeros_like(mean)
        deviation[vector] = np.sqrt(np.maximum(variance[vector], 0.0))
        rows = [parts.terms_by_name((mean + at * deviation)[None, :], parts.initial_theta) for at in POSITIONS]
        for name, first in rows[0].items():
            chosen = np.unique(np.linspace(0, first.size - 1, MOST).astype(int))
            found = chosen[_have_several(np.array([row[name].ravel()[chosen] for row in rows]))]
            if found.size:
                return _in_words(name, found[0], parts.latent_name)
    return None


def _have_several(values: np.ndarray) -> np.ndarray:
    """Return which functions, given by their values at the positions, have two maxima that count: (k, n) to (n,)."""
    values = np.where(np.isnan(values), -np.inf, values)
    return _beside_highest(values) | _beside_highest(values[::-1])


def _beside_highest(values: np.ndarray) -> np.ndarray:
    """Return which functions have a maximum that counts behind the highest one: (k, n) to (n,)."""
    behind = np.arange(len(values))[:, None] >= values.argmax(axis=0)
    lowest = np.minimum.accumulate(np.where(behind, values, np.inf), axis=0)
    # Where a function is minus infinity in between, it has no depth.
    with np.errstate(invalid="ignore"):
        rise, height = values - lowest, values.max(axis=0) - lowest
        falls = values - np.minimum.accumulate(values[::-1], axis=0)[::-1] > FALL * rise
        return np.any(behind & falls & (rise > DEPTH) & (rise > SHARE * height), axis=0)


def _in_words(name: str, term: int, latent: str) -> str:
    return (
        f"the likelihood of {name!r} has several maxima as a function of {latent!r} (observation {term} is one of "
        "these), as for an angle, or where only the square of f is seen. The posterior may have several modes, of "
        "which the approximation and the chains may find one only, and R-hat and standard errors need not show it. "
        "Start chains from different initvals, and write the model so that an observation determines f: for an angle, "
        "with a process for its cosine and one for its sine"
    )
