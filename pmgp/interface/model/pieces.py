"""Priors of single latent pieces, whose sparse precisions are blocks of the joint precision.

A piece gives its mean, and the upper triangle of its precision on a fixed pattern. Effects of groups have a diagonal or
block-diagonal precision; the prior of a time series or a field is taken from its `PrecisionPrior`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable
from scipy import sparse

from pmgp.core.markov.fields import LevelPrior
from pmgp.core.markov.soft_sums import SoftSumPattern
from pmgp.interface.model.effects import is_correlated, is_normal
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import SeriesPrior, precision_of
from pmgp.interface.model.theta_maps import ThetaMap, inverses
from pmgp.interface.model.theta_vector import ThetaVector


class Block(NamedTuple):
    """The prior of one piece at one theta.

    `upper` is the upper triangle of its precision, by columns, and `weight` the precision of the inner product with the
    piece's direction, if it has one.
    """

    upper: np.ndarray
    mean: np.ndarray
    weight: float = 0.0


class Piece(Protocol):
    """The function from theta to the prior of one latent piece.

    `pattern` (m, m) is the pattern of the upper triangle of its precision, by columns; `elements` are the elements of
    theta on which it depends. `needs` is the condition on its parameters under which it has a density.
    """

    pattern: Any
    elements: list[int]
    needs: str

    @property
    def direction(self) -> np.ndarray | None:
        """The weights of a sum with a precision of its own: (m,)."""

    def __call__(self, theta: np.ndarray) -> Block:
        """Return precision and mean, with NaN where parameters are impossible."""

    def refresh_data(self) -> None:
        """Read the model's data again."""


class NormalPiece:
    """A piece with independent normal elements."""

    direction = None
    needs = "the standard deviation must be positive, and the mean finite"

    def __init__(self, model: pm.Model, rv: TensorVariable, theta: ThetaVector, shape: tuple[int, ...]) -> None:
        graphs = [one.astype("float64") for one in model.replace_rvs_by_values(list(rv.owner.op.dist_params(rv.owner)))]
        self._parameters_at = theta.compile_small(graphs)
        self.elements = theta.elements_of(graphs)
        self._shape = shape
        self.pattern = sparse.eye_array(int(np.prod(shape)), format="csc")

    def __call__(self, theta: np.ndarray) -> Block:
        """Return precision and mean."""
        mean, deviation = (np.broadcast_to(one, self._shape).ravel() for one in self._parameters_at(theta))
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = np.where(deviation > 0.0, 1.0 / np.square(deviation), np.nan)
        return Block(precision, mean)

    def refresh_data(self) -> None:
        """Read the data again."""
        self._parameters_at.refresh_data()


class CorrelatedPiece:
    """A piece with a row of correlated elements for each group; all rows have the same covariance."""

    direction = None
    needs = "the covariance must be positive definite, and the mean finite"

    def __init__(self, model: pm.Model, rv: TensorVariable, theta: ThetaVector, shape: tuple[int, ...]) -> None:
        graphs = [one.astype("float64") for one in model.replace_rvs_by_values(list(rv.owner.op.dist_params(rv.owner)))]
        self._parameters_at = theta.compile_small(graphs)
        self.elements = theta.elements_of(graphs)
        self._shape = shape
        upper = np.triu(np.ones((shape[1], shape[1])))
        self.pattern = sparse.csc_array(sparse.block_diag([sparse.csc_array(upper)] * shape[0], format="csc"))

    def __call__(self, theta: np.ndarray) -> Block:
        """Return precision and mean."""
        mean, covariance = self._parameters_at(theta)
        columns, rows = np.tril_indices(self._shape[1])
        upper = precision_of(np.reshape(covariance, (self._shape[1], self._shape[1])))[rows, columns]
        return Block(np.tile(upper, self._shape[0]), np.broadcast_to(mean, self._shape).ravel())

    def refresh_data(self) -> None:
        """Read the data again."""
        self._parameters_at.refresh_data()


class MappedPiece:
    """The image of independent normal elements under a map that depends on theta."""

    direction = None
    needs = f"{NormalPiece.needs}, and the matrix or scale that multiplies it must be finite and invertible"

    def __init__(self, piece: NormalPiece, map: ThetaMap) -> None:
        self._piece, self._map = piece, map
        self.elements = sorted({*piece.elements, *map.elements})
        self._pairs = np.triu_indices(map.rows.shape[1])
        first, second = (map.rows[:, one].ravel() for one in self._pairs)
        low, high = np.minimum(first, second), np.maximum(first, second)
        self._order = np.lexsort((low, high))
        ones, size = np.ones(low.size), map.rows.size
        self.pattern = sparse.csc_array((ones, (low[self._order], high[self._order])), shape=(size, size))

    def __call__(self, theta: np.ndarray) -> Block:
        """Precision and mean."""
        block, blocks = self._piece(theta), self._map.blocks(theta)
        inverse = inverses(blocks)
        weighed = block.upper[self._map.columns][:, :, None] * inverse
        precision = np.einsum("gki,gkj->gij", inverse, weighed)
        upper = precision[:, *self._pairs].ravel()[self._order]
        return Block(upper, self._map.image(theta, block.mean))

    def refresh_data(self) -> None:
        """Read the data again."""
        self._piece.refresh_data()
        self._map.refresh_data()


class PriorPiece:
    """A piece with the prior of a latent vector that is alone in a model.

    f consists of elements of the prior's x, each once. The pattern is read at `theta`, and must have the precision of
    all values.
    """

    pattern: Any
    direction: np.ndarray | None

    def __init__(self, name: str, prior: SeriesPrior, theta: np.ndarray) -> None:
        self._name, self._prior, self._theta = name, prior, theta
        self.elements, self.needs, self._known = prior.elements, prior.needs, None
        self.refresh_data()

    def refresh_data(self) -> None:
        """Read the data again."""
        self._prior.refresh_data()
        pattern: Any = self._prior(self._theta).pattern
        if pattern is not self._known:
            self._known = pattern
            self._find(pattern)

    def _find(self, pattern: Any) -> None:
        """Find the upper triangle of the precision of f among the values on the pattern."""
        found, chosen = pattern.upper(), _chosen(pattern)
        if found is None or chosen is None:
            raise ModelError(
                f"{self._name!r} cannot be integrated out with other latent variables: the precision of its values is "
                "not available, as for pmgp.gp.Markov and for pmgp.gp.SPDE at points. Several pmgp.gp.Markov at the "
                "same times are one with the sum of their kernels. Otherwise use pm.AR or pm.GaussianRandomWalk for a "
                "series, and for a map pmgp.gp.SPDE(...).prior('f') on all cells with f[cell_of_point] in the "
                "predictor; or make it the only latent variable with latent=..., if the others are few numbers that "
                "can be hyper-parameters"
            )
        place = np.full(int(np.prod(pattern.shape)), -1)
        place[chosen] = np.arange(len(chosen))
        rows, columns = place[found[0]], place[found[1]]
        kept = np.flatnonzero((rows >= 0) & (columns >= 0))
        low, high = np.minimum(rows, columns)[kept], np.maximum(rows, columns)[kept]
        order = np.lexsort((low, high))
        self._places = found[2][kept[order]]
        ones, size = np.ones(len(order)), len(chosen)
        self.direction = pattern.direction[chosen] if isinstance(pattern, SoftSumPattern) else None
        self.pattern = sparse.csc_array((ones, (low[order], high[order])), shape=(size, size))

    def __call__(self, theta: np.ndarray) -> Block:
        """Return precision and mean."""
        prior = self._prior(theta)
        weight = 0.0 if self.direction is None else float(prior.values[-1])
        upper = prior.values.ravel()[self._places]
        if isinstance(prior, LevelPrior) and not prior.is_resolved():
            # The joint precision has these values alone, which are a wrong density.
            upper = np.full_like(upper, np.nan)
        return Block(upper, prior.mean, weight)


def _chosen(pattern: Any) -> np.ndarray | None:
    """Return the element of x that each site of a pattern is, or None if sites are combinations of several.

    Elements of x without a site must be independent of the others, like those that fill up a chain's last block.
    """
    numbers = np.arange(int(np.prod(pattern.shape)), dtype=float).reshape(pattern.shape)
    values = np.random.default_rng(0).standard_normal(pattern.shape)
    found = np.rint(pattern.observe(numbers)).astype(int)
    inside = ((found >= 0) & (found < numbers.size)).all()
    return found if inside and np.array_equal(values.ravel()[found], pattern.observe(values)) else None


def piece_of(
    model: pm.Model,
    rv: TensorVariable,
    latent: LatentPieces,
    theta: ThetaVector,
    single: Callable[[pm.Model, LatentVector, ThetaVector], Any],
) -> Piece:
    """Return the prior of one latent piece of a model.

    `single` makes the prior of a single latent vector.
    """
    name = model.rvs_to_values[rv].name
    if is_normal(rv):
        piece = NormalPiece(model, rv, theta, latent.shapes[name])
        return MappedPiece(piece, latent.maps[name]) if name in latent.maps else piece
    if is_correlated(rv):
        return CorrelatedPiece(model, rv, theta, latent.shapes[name])
    return PriorPiece(name, single(model, latent.single(model, rv), theta), theta.initial)
