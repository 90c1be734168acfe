"""Averages over independent normal latent values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, ndtri

from pmgp.core.likelihoods.block_moments import POINTS, normal_nodes, quasi_normal
from pmgp.core.numerics.quadrature import normal_expectation

# Pairs of points of a Sobol sequence, f and its mirror image, for one draw of the posterior. Of PARTS draws each has a
# part of the points. The next draws have all points shifted, so that the error falls with the number of draws.
PAIRS = 32
PARTS = POINTS // (2 * PAIRS)
RULE = 2
# Standard deviations beyond which the nodes of a rule in two dimensions are too far apart for usual links.
WIDE = 2.0


def number_of_nodes(dimension: int) -> int:
    """Return the number of values of f at each new point in an average over this many latent vectors."""
    return _nodes(dimension, range(1), wide=False)[0].shape[1]


def expectation_over(
    function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, variance: np.ndarray, rows: list[int], parts: range
) -> np.ndarray:
    """Return E[function(f)] for independent f ~ N(mean, variance), where only some rows of f matter.

    The function takes f of shape (C, nodes, m), and returns (nodes, m, ...). If it depends on one or two rows,
    quadrature is used, unless one of two is wide; otherwise some `parts` of a Sobol sequence, of 64 points each.
    """
    if len(rows) == 1:
        return _over_one(function, mean, variance, rows[0])
    nodes, weights = _nodes(len(rows), parts, wide=bool(np.max(variance[rows], initial=0.0) > WIDE**2))
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


def _nodes(dimension: int, parts: range, wide: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes of some parts, (dimension, nodes), and their weights."""
    if dimension <= RULE and not wide:
        return normal_nodes(dimension)
    half = np.concatenate([_part(dimension, number) for number in parts], axis=1)
    return np.concatenate([half, -half], axis=1), np.full(2 * half.shape[1], 0.5 / half.shape[1])


def _part(dimension: int, number: int) -> np.ndarray:
    part = quasi_normal(dimension)[:, number % PARTS * PAIRS :][:, :PAIRS]
    if number < PARTS:
        return part
    shift = np.random.default_rng(number // PARTS).random((dimension, 1))
    return ndtri((ndtr(part) + shift) % 1.0)


def parts_of(draw: int, draws: int) -> range:
    """Return the parts for one of some draws of the posterior; if these are few, together they have all parts."""
    return range(draw, max(PARTS, draw + 1), draws)
