"""Starts for optimizing the bound, at which the inducing inputs are informative about the observations.

Where they do not, as with length-scales far below the distances between inputs, the bound is that of observations which
have nothing to do with each other. It has no slope towards other length-scales there, and a maximum whose predictions
are the prior's. A prior's center may well be such a place, with many features or inputs in other units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmgp.core.inducing import Variational, bound
from pmgp.interface.sparse.bound import BoundFunction

# The median share of the prior variances at observations that the inducing inputs tell, below which they tell nothing,
# and the one that is looked for then.
LITTLE, ENOUGH = 0.01, 0.5
# An observation at an inducing input: that such a one is told says nothing of the others.
ITSELF = 0.999
# How often a hyper-parameter is doubled, and halved, in the search.
DOUBLINGS = 7


def beginning(function: BoundFunction) -> Variational:
    """The start of the optimization: hyper-parameters as they are, unless the inducing inputs tell nothing there.

    Then hyper-parameters are doubled, and halved, one variable at a time and all together, until half is told, and what
    has the largest bound is taken.

    Parameters
    ----------
    function : BoundFunction

    Returns
    -------
    Variational

    Raises
    ------
    ValueError
        If the density is not finite at the hyper-parameters as they are.
    """
    at = function.start()
    if not nothing_told(function, at.theta):
        return at
    found = [at, *_elsewhere(function, at.theta)]
    values = [bound(function, one).value for one in found]
    return found[int(np.nanargmax(values))]


def nothing_told(function: BoundFunction, theta: np.ndarray) -> bool:
    """Return whether the values at the inducing inputs say almost nothing about those at other inputs."""
    return _share(function, theta) < LITTLE


def _share(function: BoundFunction, theta: np.ndarray) -> float:
    """The median share of the prior variance that is told, of observations that are not at inducing inputs."""
    shares = function.parts.told(theta)
    others = shares[~(shares > ITSELF)]
    return float(np.median(others)) if others.size else 1.0


def _elsewhere(function: BoundFunction, theta: np.ndarray) -> Iterator[Variational]:
    """Starts at the hyper-parameters nearest to these at which half is told, in each direction that has some."""
    for direction in _directions(function, theta):
        for doublings in range(1, DOUBLINGS + 1):
            there = theta + doublings * np.log(2.0) * direction
            with np.errstate(all="ignore"):
                share = _share(function, there)
            if not np.isfinite(share):
                break
            if share >= ENOUGH:
                start = function.possible_start(there)
                if start is not None:
                    yield start
                break


def _directions(function: BoundFunction, theta: np.ndarray) -> Iterator[np.ndarray]:
    """Return a direction for each variable on its unconstrained scale, and one for all together."""
    parts = [np.isin(np.arange(theta.size), places) for places in function.places]
    everything = [np.ones(theta.size, dtype=bool)] if len(parts) > 1 else []
    for part in (*parts, *everything):
        yield part.astype(float)
        yield -part.astype(float)
