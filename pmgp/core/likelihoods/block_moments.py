"""Moments of densities of a few dimensions, site by site, at fixed nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from pmgp.core.likelihoods.blocks import BlockMoments
from pmgp.core.numerics.quadrature import RESOLUTION, normal_rule

__all__ = ["ORDERS", "PlacedNodes", "contrasts_of", "moments_by_nodes", "normal_nodes", "placed_nodes"]

# Gauss-Hermite nodes for each of one or two dimensions; in more of them, so many points of a Sobol sequence.
ORDERS = {1: 32, 2: 24}
# Of the largest weight of a node; what is left out changes moments by less than the rule's own error.
NEGLIGIBLE = 1e-10
POINTS = 1024


@cache
def contrasts_of(classes: int) -> np.ndarray:
    """Orthonormal rows that are orthogonal to a vector of ones (Helmert's): (classes - 1, classes)."""
    rows = np.tri(classes - 1, classes) - np.diag(np.arange(1.0, classes), k=1)[: classes - 1]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows.flags.writeable = False
    return rows


@cache
def normal_nodes(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for expectations under a standard normal: (dimension, nodes) and (nodes,)."""
    if dimension in ORDERS:
        nodes, weights = normal_rule(ORDERS[dimension])
        grid = np.array(list(product(nodes, repeat=dimension))).T
        mass = np.array(list(product(weights, repeat=dimension))).prod(axis=1)
        # Of a product of two rules nearly half of the nodes are in the corners, where there is next to no mass.
        kept = mass > NEGLIGIBLE * mass.max()
        return np.ascontiguousarray(grid[:, kept]), mass[kept] / mass[kept].sum()
    # Loading `scipy.stats` takes a second, for which nobody else's first draw should wait.
    from scipy.stats import qmc

    # Always the same points, so that what is computed with them is a function of its arguments. With mirror images and
    # unit covariance, a density that the data do not change has its moments without error.
    half = ndtri(qmc.Sobol(dimension, scramble=True, rng=np.random.default_rng(0)).random(POINTS // 2)).T
    both = np.concatenate([half, -half], axis=1)
    unit = np.linalg.solve(np.linalg.cholesky(both @ both.T / POINTS), both)
    return unit, np.full(POINTS, 1.0 / POINTS)


class PlacedNodes(NamedTuple):
    """Nodes about normal distributions, one a site, with the weights that the normals to be multiplied give them.

    Attributes
    ----------
    points : (n, d, nodes) array
    half_squares : (n, nodes) array
        Minus the exponent of the normal to be multiplied.
    scale : (n,) array
        Log of that normal over the one about which the nodes are placed, but for their exponents.
    center, spread : (n, d) and (n, d, d) array
        Of the normals about which the nodes are placed: means, and lower Cholesky factors of covariances.
    """

    points: np.ndarray
    half_squares: np.ndarray
    scale: np.ndarray
    center: np.ndarray
    spread: np.ndarray

    def moments(self, log_density: np.ndarray) -> tuple[BlockMoments, np.ndarray]:
        """Those of the density times the normal, and normalized weights of the nodes, both (n, nodes) arrays."""
        nodes, mass = normal_nodes(self.center.shape[1])
        logs = log_density - self.half_squares
        logs += 0.5 * np.square(nodes).sum(axis=0)
        largest = logs.max(axis=1)
        tilted = mass * np.exp(logs - np.where(np.isfinite(largest), largest, 0.0)[:, None])
        normalizer = tilted.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            tilted /= normalizer[:, None]
            log_normalizer = largest + np.log(normalizer) + self.scale
        shift = tilted @ nodes.T
        second = (tilted @ _pairs(nodes)).reshape(self.spread.shape)
        unit = _resolved(second - shift[:, :, None] * shift[:, None, :])
        mean = self.center + np.einsum("nde,ne->nd", self.spread, shift)
        return BlockMoments(mean, self.spread @ unit @ self.spread.swapaxes(1, 2), log_normalizer), tilted


def placed_nodes(mean: np.ndarray, covariance: np.ndarray, near: tuple[np.ndarray, np.ndarray]) -> PlacedNodes:
    """Nodes about `near` for what is multiplied by N(mean, covariance): (n, d) and (n, d, d) arrays each."""
    center, width = near
    nodes, _ = normal_nodes(mean.shape[1])
    spread, factor = np.linalg.cholesky(width), np.linalg.cholesky(covariance)
    deviations = spread @ nodes + (center - mean)[:, :, None]
    standard = np.linalg.inv(factor) @ deviations
    half_squares = 0.5 * np.einsum("ndk,ndk->nk", standard, standard)
    scale = np.log(np.einsum("ndd->nd", spread) / np.einsum("ndd->nd", factor)).sum(axis=1)
    return PlacedNodes(deviations + mean[:, :, None], half_squares, scale, center, spread)


def moments_by_nodes(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    covariance: np.ndarray,
    near: tuple[np.ndarray, np.ndarray],
) -> BlockMoments:
    """Moments of the densities proportional to ``exp(log_density(g)) N(g|mean, covariance)``, site by site.

    Parameters
    ----------
    log_density : callable
        From (n, d, nodes) to (n, nodes).
    mean : (n, d) array
    covariance : (n, d, d) array
    near : pair of arrays of the same shapes
        Of normals close to the answer, about which the nodes are placed.

    Returns
    -------
    BlockMoments
        Means and covariances are NaN, and the log normalizer minus infinity, where the density vanishes at all nodes.
    """
    placed = placed_nodes(mean, covariance, near)
    return placed.moments(log_density(placed.points))[0]


def _pairs(nodes: np.ndarray) -> np.ndarray:
    """Products of the elements of each node: (d, nodes) to (nodes, d^2)."""
    return np.einsum("dk,ek->kde", nodes, nodes).reshape(nodes.shape[1], -1)


def _resolved(covariance: np.ndarray) -> np.ndarray:
    """Covariances in units of the normals that place the nodes, no narrower than the nodes are apart: (n, d, d).

    Where the density vanishes at all nodes, or is not a number, so are they.
    """
    finite = np.isfinite(covariance).all(axis=(1, 2))
    values, vectors = np.linalg.eigh(np.where(finite[:, None, None], covariance, 0.0))
    found = (vectors * np.maximum(values, RESOLUTION)[:, None, :]) @ vectors.swapaxes(1, 2)
    return np.where(finite[:, None, None], found, np.nan)
