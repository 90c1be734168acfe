"""Rules for expectations under a normal distribution."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from pmgp.core.numerics.compiled.loading import compiled, vectors

# A density narrower than the distance between nodes appears to have variance zero. With this lower bound, relative to
# the variance of the normal that places the nodes, iterations that place them about the last answer still converge.
RESOLUTION = 0.03
MOST_NODES = 370
# Equidistant nodes are STEP apart on the scale of f, for standard deviations from NARROWEST, with 29 nodes, to WIDEST,
# with 869. TAIL standard deviations leave out a mass of 2e-9.
NARROWEST, WIDEST, STEP, TAIL = 2.0, 20.0, 1.2, 6.0
# The trapezoidal rule's error is squared if its step is halved: 1e-3 between a rule and every other node of it is 1e-6
# in the rule. The terms at both ends may be this share of the largest one. Beyond MOST nodes the rule is left as it is.
SAME, END, FARTHER, MOST = 1e-3, 1e-7, 8.0, 4000
# The number of sites whose values at the nodes stay in the processor's second cache. Longer arrays also go back to the
# operating system, which clears them again for the next sweep; that is half of the time of a sweep of a million sites.
SITES = 2048


class TiltedMoments(NamedTuple):
    """The moments of the densities proportional to ``p(y_i|f_i) N(f_i|mean, variance)``, for each site.

    `mean`, `variance` (n,); `log_normalizer` (n,): log of the integral of p(y_i|f_i) N(f_i|mean, variance) over f_i.
    """

    mean: np.ndarray
    variance: np.ndarray
    log_normalizer: np.ndarray


@cache
def normal_rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights with ``E[g(z)] ~ sum(weights * g(nodes))`` for z ~ N(0, 1).

    `order`: number of nodes; exact for polynomials of degree below ``2 * order``.

    Raises ValueError for an order beyond MOST_NODES, whose weights overflow.
    """
    if not 1 <= order <= MOST_NODES:
        raise ValueError(f"a quadrature has 1 to {MOST_NODES} nodes, not order={order}")
    nodes, weights = hermegauss(order)
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def equidistant_rule(deviation: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights with ``E[g(s z)] ~ sum(weights * g(s * nodes))`` for z ~ N(0, 1), s up to `deviation`.

    A function with poles at a distance of pi from the real axis, such as the logistic function, has them at pi / s in
    units of s. The trapezoidal rule with step h then has an error of exp(-2 pi^2 / (s h)): at most 5e-7 here for probit
    and logit links up to s = 20, where that of 32 Gauss-Hermite nodes is 1e-4 for s = 3 and .04 for s = 10. The nodes
    reach as far as the mass of exp(f).
    """
    deviation = min(max(deviation, NARROWEST), WIDEST)
    reach = TAIL + deviation
    return _trapezoidal(reach, ceil(reach * deviation / STEP))


def _trapezoidal(reach: float, each_side: int) -> tuple[np.ndarray, np.ndarray]:
    # The number of each side is even, so that every other node has both ends.
    nodes = np.linspace(-reach, reach, 4 * ceil(each_side / 2) + 1)
    weights = np.exp(-0.5 * np.square(nodes))
    return nodes, weights / weights.sum()


def normal_expectation(
    function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, variance: np.ndarray
) -> np.ndarray:
    """Return E[function(f)] for f ~ N(mean, variance), for each element.

    `function`: takes an array of shape ``(nodes, *mean.shape)`` and returns one that may have further axes; `mean`,
    `variance`: arrays of the same shape. The number of nodes follows from the largest variance. It grows, and the nodes
    reach farther, until a function that is steeper than usual links, or grows faster than exp(f), has an error of about
    1e-6.
    """
    spread = np.sqrt(variance)
    nodes, weights = equidistant_rule(float(np.max(spread, initial=0.0)))
    while True:
        values = function(mean + spread * nodes.reshape(-1, *([1] * np.ndim(mean))))
        average = np.tensordot(weights, values, axes=1)
        coarse = np.tensordot(weights[::2], values[::2], axes=1) / weights[::2].sum()
        size = np.tensordot(weights, np.abs(values), axes=1)
        ends = np.maximum(weights[0] * np.abs(values[0]), weights[-1] * np.abs(values[-1]))
        finer, farther = np.any(np.abs(average - coarse) > SAME * size), np.any(ends > END * size)
        if len(nodes) > MOST or not (finer or farther):
            # Rounding must not leave a probability above one.
            return np.asarray(np.clip(average, values.min(axis=0), values.max(axis=0)))
        reach, each_side = float(nodes[-1]), len(nodes) // 2 * (2 if finer else 1)
        if farther:
            reach, each_side = reach + FARTHER, ceil(each_side * (reach + FARTHER) / reach)
        nodes, weights = _trapezoidal(reach, each_side)


def tilted_moments(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    variance: np.ndarray,
    near: tuple[np.ndarray, np.ndarray] | None = None,
    order: int = 32,
) -> TiltedMoments:
    """Return the moments of the density proportional to ``exp(log_density(f)) N(f|mean, variance)``, for each site.

    - `log_density`: log p(y_i|f_i), elementwise on arrays of shape ``(order, n)``
    - `mean`, `variance` (n,)
    - `near` pair of (n,) arrays: mean and variance of normals close to the answer, about which the nodes are placed:
      where the data are far more precise than N(mean, variance), nodes spread over the latter would miss them
    - `order`: number of Gauss-Hermite nodes

    Mean and variance are NaN, and the log normalizer minus infinity, where the term vanishes at all nodes.
    """
    mean, variance, center, width = vectors(mean, variance, *((mean, variance) if near is None else near))
    nodes, weights = normal_rule(order)
    points, out = np.empty((order, len(mean))), np.empty((3, len(mean)))
    compiled("tilted.placed")(mean, center, width, nodes, points)
    logs = np.ascontiguousarray(log_density(points), dtype=np.float64)
    moved = near is not None
    compiled("tilted.moments")(logs, mean, variance, center, width, nodes, weights, moved, RESOLUTION, out)
    return TiltedMoments(*out)


def tilted_moments_in_parts(
    log_density: Callable[[slice], Callable[[np.ndarray], np.ndarray]],
    mean: np.ndarray,
    variance: np.ndarray,
    near: tuple[np.ndarray, np.ndarray] | None = None,
) -> TiltedMoments:
    """Return :func:`tilted_moments`, for so few sites at a time that no array of all sites and nodes is made.

    `log_density`: from a range of sites to log p(y_i|f_i) of these, elementwise on arrays of shape ``(order, sites)``.
    """
    parts = [slice(begin, begin + SITES) for begin in range(0, len(mean), SITES)]
    close = [near and (near[0][part], near[1][part]) for part in parts]
    found = [
        tilted_moments(log_density(part), mean[part], variance[part], each)
        for part, each in zip(parts, close, strict=True)
    ]
    return TiltedMoments(*map(np.concatenate, zip(*found, strict=True)))
