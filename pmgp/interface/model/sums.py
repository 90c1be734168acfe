"""p(f|theta) of latent pieces together: a block-diagonal precision of x, and f = D x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pymc as pm
from scipy import sparse

from pmgp.core.markov import PrecisionPrior, SparsePattern
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import SeriesPrior
from pmgp.interface.model.pieces import piece_of
from pmgp.interface.model.theta_vector import ThetaVector


class SumPrior(SeriesPrior):
    """Theta to p(f|theta), f made of independent latent pieces and of their sums.

    Parameters
    ----------
    model : pymc.Model
    latent : LatentPieces
    theta : ThetaVector
    single : callable
        Makes the prior of a latent vector that is alone.
    """

    computed = "none: a sparse precision of all latent variables stands for it"
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
        self.elements = sorted({element for piece in self._pieces for element in piece.elements})
        self._joined: list[Any] = []
        self._arrange()

    def _arrange(self) -> None:
        """Join the patterns of the pieces, where one of them or the design is another than before."""
        parts = [self._latent.design, *(piece.pattern for piece in self._pieces)]
        if [id(part) for part in parts] != [id(part) for part in self._joined]:
            self._joined = parts
            joined = sparse.csc_array(sparse.block_diag(parts[1:], format="csc"))
            self._pattern = SparsePattern(joined, parts[0])

    def __call__(self, theta: np.ndarray) -> PrecisionPrior:
        """p(f|theta); its precision is not a number where parameters are impossible."""
        blocks = [piece(theta) for piece in self._pieces]
        values = self._pattern.placed(np.concatenate([block.upper for block in blocks]))
        mean = np.concatenate([block.mean for block in blocks])
        if not np.isfinite(mean).all():
            values, mean = np.full_like(values, np.nan), np.zeros_like(mean)
        return PrecisionPrior(self._pattern, values, mean, np.zeros(self._pattern.sites))

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        self._latent.refresh_data()
        for piece in self._pieces:
            piece.refresh_data()
        self._arrange()
        prior = self(self._theta.initial)
        self.initial_moments = prior.mean, prior.variance

    @staticmethod
    def fault(name: str, prior: PrecisionPrior) -> str | None:
        """Why a chain cannot start with p(f|theta), f of this name; None where it can."""
        if prior.factorized() is not None:
            return None
        return (
            f"the latent variables {name} have no density there: standard deviations must be positive, and means and "
            "coefficients finite; give other initvals"
        )

    def require_matrix(self) -> NoReturn:
        """Refuse to give the covariance as a matrix.

        Raises
        ------
        ModelError
        """
        raise ModelError(
            f"{self.name} are summed in linear predictors, and their covariance matrix is never made; the step method "
            "that works without it is pmgp.PseudoMarginal. If some of them are hyper-parameters, say which are f with "
            "latent=..."
        )
