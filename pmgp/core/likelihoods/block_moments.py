"""Moments of densities of a few dimensions, site by site, at fixed nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.numerics.block_matrices import flat
from pmgp.core.numerics.quadrature import RESOLUTION, normal_rule

# Gauss-Hermite nodes for each of one or two dimensions; for more dimensions, POINTS points of a Sobol sequence.
ORDERS = {1: 32, 2: 24}
# Relative to a node's largest weight: leaving out smaller ones changes moments by less than the rule's own error.
NEGLIGIBLE = 1e-10
POINTS = 1024


@cache
def contrasts_of(classes: int) -> np.ndarray:
    """Return orthonormal rows that are orthogonal to a vector of ones (Helmert's): (classes - 1, classes)."""
    rows = np.tri(classes - 1, classes) - np.diag(np.arange(1.0, classes), k=1)[: classes - 1]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows.flags.writeable = False
    return rows


@cache
def normal_nodes(dimension: int, order: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes and weights for expectations under a standard normal: (dimension, nodes) and (nodes,).

    `order` replaces the number of Gauss-Hermite nodes for each of one or two dimensions.
    """
    if dimension in ORDERS:
        nodes, weights = normal_rule(order or ORDERS[dimension])
        grid = np.array(list(product(nodes, repeat=dimension))).T
        mass = np.array(list(product(weights, repeat=dimension))).prod(axis=1)
        # Nearly half of the nodes of a product of two rules are in the corners, which have almost no mass.
        kept = mass > NEGLIGIBLE * mass.max()
        return np.ascontiguousarray(grid[:, kept]), mass[kept] / mass[kept].sum()
    return quasi_normal(dimension), np.full(POINTS, 1.0 / POINTS)


@cache
def quasi_normal(dimension: int) -> np.ndarray:
    """Return a half of points of a Sobol sequence as normals, followed by its mirror image: (dimension, POINTS)."""
    # Loading `scipy.stats` takes a second, which would delay the first draw of all other models.
    from scipy.stats import qmc

    # The points are always the same, so that results are functions of the arguments. With mirror images and
    # unit covariance, a density that the data do not change has its moments without error.
    half = ndtri(qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(0)).random(POINTS // 2)).T
    both = np.concatenate([half, -half], axis=1)
    return np.linalg.solve(np.linalg.cholesky(both @ both.T / POINTS), both)


class PlacedNodes(NamedTuple):
    """Nodes about a normal distribution for each site, as functions of those of a standard normal.

    - `center`, `spread` (n, d) and (n, d, d): means, and lower Cholesky factors of covariances, of the normals about
      which the nodes are placed
    - `offset`, `slope` (n, d) and (n, d, d): the map from nodes z to standard normal coordinates of N(mean,
      covariance): offset + slope z
    - `scale` (n,): log-ratio of the constants of N(mean, covariance) and of the normals about which the nodes are
      placed
    """

    center: np.ndarray
    spread: np.ndarray
    offset: np.ndarray
    slope: np.ndarray
    scale: np.ndarray

    def points(self, nodes: np.ndarray) -> np.ndarray:
        """Return the places of nodes of a standard normal, (d, nodes): (n, d, nodes)."""
        return self.spread @ nodes + self.center[:, :, None]

    def moments(self, log_density: np.ndarray, nodes: np.ndarray, mass: np.ndarray) -> BlockMoments:
        """Return the moments of the density times the normal, from log-densities (n, nodes) and a rule."""
        standard = self.slope @ nodes + self.offset[:, :, None]
        logs = log_density - 0.5 * np.einsum("ndk,ndk->nk", standard, standard) + log_ratio(nodes, mass)
        weights, log_normalizer = normalized(logs)
        return self.restored(log_normalizer, weights @ nodes.T, weights @ pairs(nodes))

    def restored(self, log_normalizer: np.ndarray, first: np.ndarray, second: np.ndarray) -> BlockMoments:
        """Return the moments from averages of nodes z, (n, d), and of products of their elements, (n, d d)."""
        unit = _resolved(second.reshape(self.spread.shape) - first[:, :, None] * first[:, None, :])
        mean = self.center + np.einsum("nde,ne->nd", self.spread, first)
        covariance = self.spread @ unit @ self.spread.swapaxes(1, 2)
        return BlockMoments(mean, covariance, log_normalizer + self.scale)


def placed_nodes(mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray]) -> PlacedNodes:
    """Return nodes about `near` for functions times N(mean, covariance): pairs of (n, d) and (n, d, d) arrays."""
    center, width = near
    spread, factor = np.linalg.cholesky(width), np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(factor)
    scale = np.log(np.einsum("ndd->nd", spread) / np.einsum("ndd->nd", factor)).sum(axis=1)
    return PlacedNodes(center, spread, np.einsum("nde,ne->nd", inverse, center - mean), inverse @ spread, scale)


def log_ratio(nodes: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Return log-ratios of weights and the standard normal density, up to a constant: (d, nodes) to (nodes,)."""
    return np.log(mass) + 0.5 * np.square(nodes).sum(axis=0)


def normalized(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normalize weights given by their logs; return also the log of their sum: (n, nodes) to (n, nodes) and (n,)."""
    largest = logs.max(axis=1)
    weights = np.exp(logs - np.where(np.isfinite(largest), largest, 0.0)[:, None])
    normalizer = weights.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return weights / normalizer[:, None], largest + np.log(normalizer)


def moments_by_nodes(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    covariance: np.ndarray,
    near: tuple[np.ndarray, np.ndarray],
    order: int | None = None,
) -> BlockMoments:
    """Return the moments of the densities proportional to ``exp(log_density(g)) N(g|mean, covariance)``, site by site.

    `log_density`: from (n, d, nodes) to (n, nodes); `mean` (n, d); `covariance` (n, d, d); `near`: means and
    covariances of normals close to the answer, about which the nodes are placed; `order`: that of `normal_nodes`.

    Means and covariances are NaN, and the log normalizer minus infinity, where the density vanishes at all
    nodes.
    """
    placed, (nodes, mass) = placed_nodes(mean, covariance, near), normal_nodes(mean.shape[1], order)
    return placed.moments(log_density(placed.points(nodes)), nodes, mass)


def moments_of_sites(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    covariance: np.ndarray,
    near: tuple[np.ndarray, np.ndarray] | None,
    order: int | None = None,
) -> BlockMoments:
    """Do the same for the log-density of all sites as a function of their values: (draws, C n) to (draws, n)."""
    return moments_by_nodes(
        lambda g: log_density(flat(g.transpose(2, 1, 0))).T, mean, covariance, near or (mean, covariance), order
    )


def pairs(nodes: np.ndarray) -> np.ndarray:
    """Return products of the elements of each node: (d, nodes) to (nodes, d^2)."""
    return np.einsum("dk,ek->kde", nodes, nodes).reshape(nodes.shape[1], -1)


def _resolved(covariance: np.ndarray) -> np.ndarray:
    """Raise covariances, in units of the normals that place the nodes, to at least the nodes' distance: (n, d, d).

    They are NaN where the density vanishes at all nodes or is NaN.
    """
    finite = np.isfinite(covariance).all(axis=(1, 2))
    values, vectors = np.linalg.eigh(np.where(finite[:, None, None], covariance, 0.0))
    found = (vectors * np.maximum(values, RESOLUTION)[:, None, :]) @ vectors.swapaxes(1, 2)
    return np.where(finite[:, None, None], found, np.nan)
