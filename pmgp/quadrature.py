"""Gauss-Hermite rules for expectations under a normal distribution."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

__all__ = ["normal_expectation", "normal_rule"]


@cache
def normal_rule(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights with ``E[g(z)] ~ sum(weights * g(nodes))`` for z ~ N(0, 1).

    Parameters
    ----------
    order : int
        Number of nodes; exact for polynomials of degree below ``2 * order``.
    """
    nodes, weights = hermegauss(order)
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def normal_expectation(
    function: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    variance: np.ndarray,
    order: int = 32,
) -> np.ndarray:
    """E[function(f)] for f ~ N(mean, variance), element by element.

    Parameters
    ----------
    function : callable
        Takes and returns an array of shape ``(order, *mean.shape)``.
    mean, variance : array
        Of one shape.
    order : int
        Number of Gauss-Hermite nodes.
    """
    nodes, weights = normal_rule(order)
    spread = np.sqrt(variance)
    points = mean + spread * nodes.reshape(-1, *([1] * np.ndim(mean)))
    return np.tensordot(weights, function(points), axes=1)
