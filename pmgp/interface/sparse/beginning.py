"""Starting points for optimizing the bound, at which the inducing inputs are informative about the observations.

Where they are not, as with length-scales far below the distances between inputs, the bound treats the observations as
unrelated. It has no slope towards other length-scales there, and its maximum predicts as the prior does. The center of
a prior may well be such a place if there are many features, or if the inputs have other units.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pmgp.core.inducing import Variational, bound
from pmgp.interface.sparse.bound import BoundFunction

# Medians of the share of the prior variance at observations that inducing inputs explain: below the first they count as
# uninformative, and the search then looks for the second.
LITTLE, ENOUGH = 0.01, 0.5
# A larger share means that the observation is at an inducing input, and so says nothing about other inputs.
ITSELF = 0.999
# The largest number of times that the search doubles or halves a hyper-parameter.
DOUBLINGS = 7


def beginning(function: BoundFunction) -> Variational:
    """Return the start of the optimization: the present hyper-parameters, unless inducing inputs say nothing there.

    In that case the hyper-parameters are doubled or halved, one variable at a time and all together, until the inducing
    inputs explain half of the prior variance. Of all these starts, the one with the largest bound is returned.
    """
    at = function.start()
    if not uninformative(function, at.theta):
        return at
    found = [at, *_elsewhere(function, at.theta)]
    values = [bound(function, one).value for one in found]
    return found[int(np.nanargmax(values))]


def uninformative(function: BoundFunction, theta: np.ndarray) -> bool:
    """Return whether the values at the inducing inputs say almost nothing about those at other inputs."""
    return _share(function, theta) < LITTLE


def _share(function: BoundFunction, theta: np.ndarray) -> float:
    """Return the median explained share of the prior variance over observations that are not at inducing inputs."""
    shares = function.parts.explained_shares(theta)
    others = shares[~(shares > ITSELF)]
    return float(np.median(others)) if others.size else 1.0


def _elsewhere(function: BoundFunction, theta: np.ndarray) -> Iterator[Variational]:
    """Yield, for each direction, the start nearest to theta at which half of the prior variance is explained."""
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
    """Yield both directions along each variable on its unconstrained scale, and both along all of them together."""
    parts = [np.isin(np.arange(theta.size), places) for places in function.places]
    everything = [np.ones(theta.size, dtype=bool)] if len(parts) > 1 else []
    for part in (*parts, *everything):
        yield part.astype(float)
        yield -part.astype(float)
