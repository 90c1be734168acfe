"""p(f|theta) of several latent pieces: x has a block-diagonal precision, and f = D x."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any, NoReturn

import numpy as np
import pymc as pm
from scipy import sparse

from pmgp.core.markov import CoupledPrecisionPrior, PrecisionPrior, SparsePattern
from pmgp.core.markov.soft_sums import SoftSumPattern
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import REMEDY, SeriesPrior
from pmgp.interface.model.pieces import Block, piece_of
from pmgp.interface.model.theta_vector import ThetaVector


class SumPrior(SeriesPrior):
    """The function from theta to p(f|theta), where f holds independent latent pieces and their sums.

    `single` makes the prior of a single latent vector.
    """

    computed = "not needed: all latent variables together have a sparse precision"
    _pattern: SparsePattern

    def __init__(
        self,
        model: pm.Model,
        latent: LatentPieces,
        theta: ThetaVector,
        single: Callable[[pm.Model, LatentVector, ThetaVector], Any],
    ) -> None:
        self.name, self._latent, self._theta = latent.name, latent, theta
        self._pieces = [piece_of(model, rv, latent, theta, single) for rv in latent.variables]
        found = {element for piece in self._pieces for element in piece.elements}
        self.elements = sorted(found | set(latent.predictor.elements))
        self._joined: list[Any] = []
        self._arrange()

    def _arrange(self) -> None:
        """Join the patterns of the pieces again if one of them or the design has changed."""
        coupled = () if self._latent.coupled is None else self._latent.coupled.rows
        patterns = [piece.pattern for piece in self._pieces]
        parts = [self._latent.design, *coupled, *patterns]
        if [id(part) for part in parts] != [id(part) for part in self._joined]:
            self._joined = parts
            joined = sparse.csc_array(sparse.block_diag(patterns, format="csc"))
            direction, given = self._direction(), (joined, self._latent.design, coupled)
            self._pattern = SparsePattern(*given) if direction is None else SoftSumPattern(*given, direction=direction)

    def _direction(self) -> np.ndarray | None:
        """Return the weights, over all pieces, of the sum with an additional precision, or None if there is none."""
        names = [name for name, one in zip(self._latent.names, self._pieces, strict=True) if one.direction is not None]
        if not names:
            return None
        if len(names) > 1:
            raise ModelError(
                f"{', '.join(names)} are several pm.ICAR, but a model may have only one: write the others as pm.CAR "
                "with an alpha near one"
            )
        sizes = self._latent.lengths.values()
        found = [one.direction for one in self._pieces]
        return np.concatenate([np.zeros(n) if one is None else one for n, one in zip(sizes, found, strict=True)])

    def __call__(self, theta: np.ndarray) -> PrecisionPrior:
        """Return p(f|theta), with NaN in its precision where parameters are impossible."""
        scales = self._latent.predictor.scales(theta)
        blocks = [_scaled(piece(theta), scale) for piece, scale in zip(self._pieces, scales, strict=True)]
        upper, mean = (np.concatenate(each) for each in zip(*[block[:2] for block in blocks], strict=True))
        if isinstance(self._pattern, SoftSumPattern):
            upper = np.append(upper, sum(block.weight for block in blocks))
        values = self._pattern.placed(upper)
        if not np.isfinite(mean).all():
            values, mean = np.full_like(values, np.nan), np.zeros_like(mean)
        kind = PrecisionPrior if self._latent.coupled is None else CoupledPrecisionPrior
        return kind(self._pattern, values, mean, np.zeros(self._pattern.sites))

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        self._latent.refresh_data()
        for piece in self._pieces:
            piece.refresh_data()
        self._arrange()
        prior = self(self._theta.initial)
        self.initial_moments = prior.mean, prior.variance

    def shifts(self, theta: np.ndarray, places: Any) -> dict[str, float]:
        """Return the pieces that can shift some predictors alike, with the prior standard deviation of such a shift."""
        scales, found = self._latent.predictor.scales(theta), {}
        parts = zip(self._latent.names, self._pieces, self._columns(), scales, strict=True)
        for name, piece, columns, scale in parts:
            moved = (columns @ np.ones(columns.shape[1]))[places]
            if not moved[0] or not np.allclose(moved, moved[0]):
                continue
            block, number = piece(theta), columns.shape[1]
            rows, at = piece.pattern.indices, np.repeat(np.arange(number), np.diff(piece.pattern.indptr))
            precision = np.where(rows == at, 1.0, 2.0) @ block.upper
            precision += 0.0 if piece.direction is None else block.weight * piece.direction.sum() ** 2
            found[name] = float(abs(scale * moved[0]) / np.sqrt(precision))
        return found

    def same_index(self) -> list[tuple[str, str]]:
        """Return pairs of pieces with independent elements that have the same columns in A."""
        parts = [
            (name, columns)
            for name, piece, columns in zip(self._latent.names, self._pieces, self._columns(), strict=True)
            if piece.pattern.nnz == columns.shape[1]
        ]
        pairs = combinations(parts, 2)
        return [(a, b) for (a, one), (b, other) in pairs if one.shape == other.shape and not (one != other).nnz]

    def _columns(self) -> list[Any]:
        """Return the columns of A for each piece."""
        ends = np.cumsum([0, *self._latent.lengths.values()])
        rows = sparse.csc_array(self._latent.rows)
        return [rows[:, start:end] for start, end in pairwise(ends)]

    def fault(self, name: str, theta: np.ndarray) -> str | None:
        """Return why a chain cannot start with p(f|theta), or None if it can; `name` is that of f."""
        if self(theta).factorized() is not None:
            return None
        named = zip(self._latent.names, self._pieces, strict=True)
        wrong = [f"of {piece!r}, {one.needs}" for piece, one in named if not _is_finite(one(theta))]
        needs = "; ".join(wrong) or "the numbers that stand before them must be finite and not zero"
        return f"the latent variables {name} have no density there: {needs}; {REMEDY}"

    def require_matrix(self) -> NoReturn:
        """Refuse to give the covariance as a matrix."""
        raise ModelError(
            f"the likelihood depends on linear predictors of {self.name}, whose covariance matrix is never formed; use "
            "pmgp.PseudoMarginal, which works without it. If some of them are hyper-parameters, say which are f with "
            "latent=..."
        )


def _is_finite(block: Block) -> bool:
    return bool(np.isfinite(block.upper).all() and np.isfinite(block.mean).all())


def _scaled(block: Block, scale: float) -> Block:
    """Return the prior of a piece times a number, with a precision of NaN if that is zero or infinite."""
    if scale == 1.0:
        return block
    squared = scale**2 if 0.0 < abs(scale) < np.inf else np.nan
    return Block(block.upper / squared, scale * block.mean, block.weight / squared)
