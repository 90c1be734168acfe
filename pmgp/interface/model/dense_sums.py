"""p(f|theta) where linear predictors are combinations of processes with covariance matrices, and of other variables.

Each latent variable has a matrix for its covariance. For effects of groups, series and fields it is the inverse of the
precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Protocol

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable
from scipy import sparse

from pmgp.core.gaussians import DensePrior, DesignPrior, IndependentPrior
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_prior import BlockLatentPrior, LatentPrior, MatrixPrior, latent_prior
from pmgp.interface.model.latent_variable import ModelError, is_dense
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import STEP, precision_of
from pmgp.interface.model.pieces import Piece, piece_of
from pmgp.interface.model.theta_vector import ThetaVector


class _Part(Protocol):
    """The function from theta to the prior of one variable, which is multiplied by a scale."""

    def __call__(self, theta: np.ndarray, scale: float) -> list[DensePrior]:
        """Return the priors of the variable's vectors."""

    def pullback(self, theta: np.ndarray, scale: float, bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of <bar, K> + mean_bar' m at a fixed scale."""

    def refresh_data(self) -> None:
        """Read the data again."""


class DenseSumPrior(MatrixPrior):
    """The function from theta to p(f|theta), where f holds the elements of all latent variables.

    `single` makes the prior of a single latent vector.
    """

    computed = "a matrix for each latent variable; combinations of these are the linear predictors"

    def __init__(
        self,
        model: pm.Model,
        latent: LatentPieces,
        theta: ThetaVector,
        single: Callable[[pm.Model, LatentVector, ThetaVector], Any],
    ) -> None:
        self.name, self._latent, self._theta = latent.name, latent, theta
        self._parts = [_part_of(model, rv, latent, theta, single) for rv in latent.variables]

    def __call__(self, theta: np.ndarray) -> DesignPrior:
        """Return p(f|theta)."""
        coupled = self._latent.coupled
        assert coupled is not None
        scales = self._latent.predictor.scales(theta)
        found = [prior for part, scale in zip(self._parts, scales, strict=True) for prior in part(theta, scale)]
        return DesignPrior(IndependentPrior(found), coupled.design, coupled.number)

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        self._latent.refresh_data()
        for part in self._parts:
            part.refresh_data()
        prior = self(self._theta.initial)
        self.initial_moments = prior.mean, prior.variance.copy()

    def pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient of <covariance_bar, K(theta)> + mean_bar' m(theta) in theta.

        Scales, and priors with a sparse precision, are differentiated by central differences.
        """
        total, scales = np.zeros_like(theta), self._latent.predictor.scales(theta)
        by_scale, start = np.zeros(len(scales)), 0
        for place, (part, scale, size) in enumerate(
            zip(self._parts, scales, self._latent.lengths.values(), strict=True)
        ):
            own = slice(start, start + size)
            bar, by_mean, start = covariance_bar[own, own], mean_bar[own], start + size
            total += part.pullback(theta, scale, bar, by_mean)
            if self._latent.predictor.scaled:
                covariance, mean = _inner(bar, by_mean, part(theta, scale))
                by_scale[place] = (2.0 * covariance + mean) / scale
        return total + _along(self._latent.predictor, theta, by_scale)

    def compile_pullback(self) -> None:
        """Compile :meth:`pullback` now."""
        size = len(self.initial_moments[0])
        self.pullback(self._theta.initial, np.zeros((size, size)), np.zeros(size))

    @property
    def mean(self) -> NoReturn:
        """Refuse to give the mean as a graph."""
        self.require_matrix()

    @property
    def covariance(self) -> NoReturn:
        """Refuse to give the covariance as a graph."""
        self.require_matrix()

    def require_matrix(self) -> NoReturn:
        """Refuse to give the covariance of predictors."""
        raise ModelError(
            f"the likelihood depends on linear predictors of {self.name}, which pmgp.PseudoMarginal integrates out; "
            "this function needs observations that depend on one latent value each. If some of the variables are "
            "hyper-parameters, say which are f with latent=..."
        )


class DensePart:
    """A process."""

    def __init__(self, model: pm.Model, latent: LatentVector, theta: ThetaVector) -> None:
        self._prior: LatentPrior | BlockLatentPrior = latent_prior(model, latent, theta)

    def __call__(self, theta: np.ndarray, scale: float) -> list[DensePrior]:
        """Return the priors of the process's vectors; those that are equal are one object."""
        found = self._prior(theta).parts
        if scale == 1.0:
            return list(found)
        scaled = {id(one): _scaled(one, scale) for one in found}
        return [scaled[id(one)] for one in found]

    def pullback(self, theta: np.ndarray, scale: float, bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient at a fixed scale."""
        bar = scale**2 * bar
        if isinstance(self._prior, BlockLatentPrior):
            number = len(self._prior.parts)
            size = len(mean_bar) // number
            bar = np.array([bar[c * size : (c + 1) * size, c * size : (c + 1) * size] for c in range(number)])
        return self._prior.pullback(theta, bar, scale * mean_bar)

    def refresh_data(self) -> None:
        """Read the data again."""
        self._prior.refresh_data()


class _SparsePart:
    """A variable with a sparse precision, which is inverted."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece

    def __call__(self, theta: np.ndarray, scale: float) -> list[DensePrior]:
        """Return the prior."""
        block, pattern = self._piece(theta), sparse.csc_array(self._piece.pattern)
        upper = sparse.csc_array((block.upper, pattern.indices, pattern.indptr), shape=pattern.shape)
        if pattern.nnz == pattern.shape[0]:
            covariance = np.diag(1.0 / upper.diagonal())
        else:
            precision = upper.toarray()
            precision += np.triu(precision, 1).T
            if self._piece.direction is not None:
                precision += block.weight * np.outer(self._piece.direction, self._piece.direction)
            covariance = precision_of(precision)
        return [_scaled(DensePrior(block.mean, np.asfortranarray(covariance)), scale)]

    def pullback(self, theta: np.ndarray, scale: float, bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient at a fixed scale, by central differences."""
        total = np.zeros_like(theta)
        for element in self._piece.elements:
            shift = STEP * np.eye(1, len(theta), element)[0]
            above, below = (sum(_inner(bar, mean_bar, self(at, scale))) for at in (theta + shift, theta - shift))
            total[element] = (above - below) / (2.0 * STEP)
        return total

    def refresh_data(self) -> None:
        """Read the data again."""
        self._piece.refresh_data()


def _part_of(
    model: pm.Model,
    rv: TensorVariable,
    latent: LatentPieces,
    theta: ThetaVector,
    single: Callable[[pm.Model, LatentVector, ThetaVector], Any],
) -> _Part:
    if is_dense(rv):
        return DensePart(model, latent.single(model, rv), theta)
    return _SparsePart(piece_of(model, rv, latent, theta, single))


def _scaled(prior: DensePrior, scale: float) -> DensePrior:
    """Return the prior of a multiple, which cannot be factorized if the scale is zero or infinite."""
    # Elements above the diagonals are arbitrary.
    with np.errstate(all="ignore"):
        return DensePrior(scale * prior.mean, scale**2 * prior.covariance, scale**2 * prior.jitter)


def _inner(bar: np.ndarray, mean_bar: np.ndarray, parts: list[DensePrior]) -> tuple[float, float]:
    """Return <bar, K> and mean_bar' m, from the lower triangles of symmetric matrices."""
    total, start = 0.0, 0
    for part in parts:
        own = slice(start, start + part.size)
        lower = np.tril(bar[own, own], -1)
        total += 2.0 * float(np.vdot(lower, np.tril(part.covariance, -1)))
        total += float(np.diag(bar[own, own]) @ part.variance)
        start += part.size
    return total, float(mean_bar @ np.concatenate([part.mean for part in parts]))


def _along(predictor: Any, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the gradient of the weighted sum of the scales in theta."""
    total = np.zeros_like(theta)
    for element in predictor.elements:
        shift = STEP * np.eye(1, len(theta), element)[0]
        total[element] = weights @ (predictor.scales(theta + shift) - predictor.scales(theta - shift)) / (2.0 * STEP)
    return total
