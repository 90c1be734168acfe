"""p(f|theta) of a PyMC model as a function of theta: the contract, and the kinds of priors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pymc as pm
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import Prior
from pmgp.interface.model.dense_sums import DenseSumPrior
from pmgp.interface.model.field_prior import FieldPrior
from pmgp.interface.model.fields import is_field
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_prior import latent_prior
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.markov import SeriesPrior
from pmgp.interface.model.state_space import ProcessPrior
from pmgp.interface.model.sums import SumPrior
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.model.time_series import is_markov, is_process


class ModelPrior(Protocol):
    """The function from theta to p(f|theta), a `Prior` of any kind.

    `initial_moments` are the means and variances of f at the initial theta, with the data that were read last.
    """

    @property
    def initial_moments(self) -> tuple[np.ndarray, np.ndarray]: ...  # noqa: D102

    @property
    def markov(self) -> bool:
        """Whether f has a sparse precision, so that its values can be drawn one after another."""

    @property
    def computed(self) -> str:
        """A description of how the covariance is computed."""

    @property
    def mean(self) -> TensorVariable:
        """The mean as a graph."""

    @property
    def covariance(self) -> TensorVariable:
        """The covariance as a graph; with several latent vectors one for each, along a first axis."""

    def __call__(self, theta: np.ndarray) -> Prior:
        """Return p(f|theta)."""

    def refresh_data(self) -> None:
        """Read the inputs again, as `pymc.set_data` may have changed them."""

    def pullback(self, theta: np.ndarray, covariance_bar: Any, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of <covariance_bar, K> + mean_bar' m, with the bar that posteriors of f make."""

    def compile_pullback(self) -> None:
        """Compile :meth:`pullback` now."""

    def fault(self, name: str, theta: np.ndarray) -> str | None:
        """Return why a chain cannot start with p(f|theta), or None if it can; `name` is that of f."""

    def require_matrix(self) -> None:
        """Refuse a kind that has no covariance matrix."""


# A predicate for each kind of latent variable, with the class of its p(f|theta). Others have a covariance matrix.
KINDS: list[tuple[Callable[[TensorVariable], bool], Callable[..., ModelPrior]]] = [
    (is_field, FieldPrior),
    (is_process, ProcessPrior),
    (is_markov, SeriesPrior),
]


def model_prior(model: pm.Model, latent: LatentVector | LatentPieces, theta: ThetaVector) -> ModelPrior:
    """Return the function from theta to p(f|theta), for the kind of the first latent variable or a sum of pieces."""
    if isinstance(latent, LatentPieces):
        return (DenseSumPrior if latent.dense else SumPrior)(model, latent, theta, model_prior)
    first = latent.variables[0]
    make = next((make for is_of_kind, make in KINDS if is_of_kind(first)), latent_prior)
    return make(model, latent, theta)
