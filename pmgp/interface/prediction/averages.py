"""Averages over independent normal latent values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from pmgp.core.likelihoods.block_moments import normal_nodes, quasi_normal
from pmgp.core.numerics.quadrature import normal_expectation

# Pairs of points of a Sobol sequence, f and its mirror image, for one draw of the posterior. Of PARTS draws each has a
# part of the points. The next draws have all points shifted, so that the error falls with the number of draws.
PAIRS, PARTS = 32, 16
RULE = 2
# Standard deviations beyond which the nodes of a rule in two dimensions are too far apart for usual links.
WIDE = 2.0


def number_of_nodes(dimension: int) -> int:
    """Return the number of values of f at each new point in an average over this many latent vectors."""
    return _nodes(dimension, 0, wide=False)[0].shape[1]


def expectation_over(
    function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, variance: np.ndarray, rows: list[int], draw: int
) -> np.ndarray:
    """Return E[function(f)] for independent f ~ N(mean, variance), where only some rows of f matter.

    The function takes f of shape (C, nodes, m), and returns (nodes, m, ...). If it depends on one or two rows,
    quadrature is used, unless both are wide; otherwise 64 points of a Sobol sequence, different ones for each `draw`.
    """
    if len(rows) == 1:
        return _over_one(function, mean, variance, rows[0])
    nodes, weights = _nodes(len(rows), draw, wide=bool(np.max(variance[rows], initial=0.0) > WIDE**2))
    f = np.repeat(mean[:, None], nodes.shape[1], axis=1)
    f[rows] += np.sqrt(variance[rows])[:, None] * nodes[:, :, None]
    return np.tensordot(weights, function(f), axes=1)


def _over_one(
    function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, variance: np.ndarray, row: int
) -> np.ndarray:
    if len(mean) == 1:
        return normal_expectation(lambda f: function(f[None]), mean[0], variance[0])

    def of_row(values: np.ndarray) -> np.ndarray:
        f = np.repeat(mean[:, None], len(values), axis=1)
        f[row] = values
        return function(f)

    return normal_expectation(of_row, mean[row], variance[row])


def _nodes(dimension: int, draw: int, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes for one draw, (dimension, nodes), and their weights."""
    if dimension <= RULE and not wide:
        return normal_nodes(dimension)
    part = quasi_normal(dimension)[:, draw % PARTS * PAIRS :][:, :PAIRS]
    if draw >= PARTS:
        shift = np.random.default_rng(draw // PARTS).random((dimension, 1))
        part = ndtri((ndtr(part) + shift) % 1.0)
    return np.concatenate([part, -part], axis=1), np.full(2 * PAIRS, 0.5 / PAIRS)
