"""p(f|theta) for solvers that only multiply K with vectors: no n by n matrix is made."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import numpy as np
import pymc as pm
from pytensor.tensor.random.basic import MvNormalRV

from pmgp.interface.covariance import tiled
from pmgp.interface.covariance.distances import centered
from pmgp.interface.covariance.tiled import Backend, TiledMoments
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.model.time_series import is_markov


def refuse_constant_inputs(model: pm.Model) -> None:
    """Refuse constant inputs of many points, from which PyMC makes identity matrices when a model is set up."""
    for rv in model.basic_RVs:
        points = rv.type.shape[-1] if isinstance(rv.owner.op, MvNormalRV) else None
        if points is not None and points > tiled.LARGEST_WHOLE:
            raise ModelError(
                f"the inputs of {rv.name!r} are constants, from which PyMC would make matrices of {points} by {points} "
                'before anything is computed: give them as X=pm.Data("X", X)'
            )


class TiledPrior:
    """The function from theta to the mean of f and its covariance in tiles, for models with one latent vector.

    Several latent vectors and time series are refused, and so are covariances that cannot be computed in tiles.
    """

    markov: ClassVar[bool] = False
    initial_moments: tuple[np.ndarray, np.ndarray]

    def __init__(
        self, model: pm.Model, latent: LatentVector | LatentPieces, theta: ThetaVector, backend: Backend
    ) -> None:
        if isinstance(latent, LatentPieces) or latent.several or is_markov(latent.variables[0]):
            raise ModelError(
                f"{latent.name} is not a single latent vector with a covariance function, which iterative solvers "
                "need: use pmgp.marginal.log_likelihood"
            )
        rv = latent.variables[0]
        self.mean, self.covariance = centered(model.replace_rvs_by_values(list(rv.owner.op.dist_params(rv.owner))))
        self._theta = theta
        try:
            self._tiles = backend.covariance(model, theta, self.mean, self.covariance)
        except UnsupportedGraphError as error:
            raise ModelError(f"the covariance of {latent.name!r} cannot be computed in tiles: {error}") from error

    @property
    def computed(self) -> str:
        """How products are computed, in words."""
        return f"in tiles, {self._tiles.computed}"

    def __call__(self, theta: np.ndarray) -> TiledMoments:
        """Return the moments of p(f|theta)."""
        return self._tiles.moments(theta)

    def refresh_data(self) -> None:
        """Read the inputs again, as `pymc.set_data` may have changed them."""
        self._tiles.refresh_data()
        moments = self(self._theta.initial)
        self.initial_moments = moments.mean, moments.total.diagonal()

    def pullback(self, theta: np.ndarray, covariance_bar: Any, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of a function with the gradients `covariance_bar` and `mean_bar`."""
        return self._tiles.pullback_of_bar(theta, covariance_bar, mean_bar)

    def compile_pullback(self) -> None:
        """Do nothing: tiles need no compilation."""

    def fault(self, name: str, prior: Any) -> NoReturn:
        """Refuse to start a chain."""
        raise NotImplementedError("chains factorize the covariance of f")

    def require_matrix(self) -> None:
        """Do nothing: there is a covariance matrix, though it is never made."""
