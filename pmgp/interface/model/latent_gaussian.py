"""A PyMC model as what the core needs: theta -> (log p(theta), m, K), and the likelihood and its derivatives.

The latent vector is the model's multivariate normal variable, or its time series; every other free variable belongs to
theta. Each part is a module of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import Prior
from pmgp.core.likelihoods import Likelihood
from pmgp.interface.graphs.compilation import Compiler, announced
from pmgp.interface.model.joint_terms import Graphs
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ModelError, find_latent
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.likelihood_terms import LikelihoodTerms
from pmgp.interface.model.missing import Imputation
from pmgp.interface.model.model_checks import ModelChecks
from pmgp.interface.model.model_likelihood import ModelLikelihood
from pmgp.interface.model.model_prior import ModelPrior
from pmgp.interface.model.observations import Observations
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector

__all__ = ["LatentGaussianModel", "ModelError", "find_latent"]


@dataclass(frozen=True, eq=False)
class LatentGaussianModel:
    """The parts of a model's joint density as functions of theta and f, which `take_apart` makes of a PyMC model.

    Attributes
    ----------
    latent_vector : LatentVector or LatentPieces
        f.
    theta : ThetaVector
    theta_prior : ThetaPrior
    latent_prior : ModelPrior
    model_likelihood : ModelLikelihood
    observations : Observations
    likelihood_graphs : list of variables
        Terms of log p(y|f, theta), in terms of the value variables and of f as one vector.
    likelihood_elements : list of int
        The elements of theta that the likelihood depends on.
    prior_values : list of variables
        The value variables of the hyper-parameters that p(f|theta) depends on.
    imputation : Imputation, optional
        Draws missing observations.
    checks : ModelChecks
    """

    latent_vector: LatentVector | LatentPieces
    theta: ThetaVector
    theta_prior: ThetaPrior
    latent_prior: ModelPrior
    model_likelihood: ModelLikelihood
    observations: Observations
    likelihood_graphs: list[TensorVariable]
    likelihood_elements: list[int]
    prior_values: list[TensorVariable]
    imputation: Imputation | None
    checks: ModelChecks

    @property
    def latent(self) -> TensorVariable:
        """The variable that is f.

        Raises
        ------
        ModelError
            If there are several, or it has several rows.
        """
        if self.latent_vector.several:
            raise ModelError(
                f"the model has several latent vectors ({self.latent_name}), which step methods take together; this "
                "function takes models of one"
            )
        return self.latent_vector.variables[0]

    @property
    def graphs(self) -> Graphs:
        """The parts of the joint density as graphs.

        Raises
        ------
        ModelError
            For a time series, whose covariance has none.
        """
        prior = self.latent_prior
        return Graphs(self.theta_prior.graph, prior.mean, prior.covariance, self.likelihood_graphs)

    @property
    def latent_value(self) -> TensorVariable:
        """f in graphs: its value variable, or a vector that holds several."""
        return self.latent_vector.vector

    @property
    def latent_name(self) -> str:
        """The name of f in errors."""
        return self.latent_vector.name

    def log_prior(self, theta: np.ndarray) -> float:
        """Log p(theta) on the unconstrained scale."""
        return self.theta_prior(theta)

    def prior(self, theta: np.ndarray) -> Prior:
        """p(f|theta)."""
        return self.latent_prior(theta)

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """p(y|f, theta); zero for every f where theta's parameters of the likelihood are outside their domain."""
        return self.model_likelihood(theta)

    @property
    def terms(self) -> LikelihoodTerms | None:
        """The terms of a likelihood that is given by its graph; None for a closed form, whose sites are known."""
        return self.model_likelihood.terms

    @property
    def sites_known(self) -> bool:
        """Whether no term of the likelihood depends on several latent values, so that moments can be matched."""
        return self.terms is None or self.terms.separate

    @property
    def initial_moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of f at the initial theta: two (n,) arrays."""
        return self.latent_prior.initial_moments

    @property
    def initial_theta(self) -> np.ndarray:
        """Theta at the model's initial point."""
        return self.theta.initial

    @property
    def dimension(self) -> int:
        """Length of theta."""
        return self.theta.dimension

    @property
    def theta_names(self) -> list[str]:
        """Names of theta's value variables."""
        return self.theta.names

    @property
    def theta_values(self) -> list[TensorVariable]:
        """Theta's value variables."""
        return self.theta.values

    @property
    def missing_values(self) -> list[TensorVariable]:
        """Value variables of missing observations."""
        return [] if self.imputation is None else self.imputation.values

    @property
    def compile_function(self) -> Compiler:
        """Makes functions of graphs."""
        return self.theta.compile_function

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Theta as one vector from a point of the model."""
        return self.theta.ravel(point)

    def stands_in(self, point: dict[str, np.ndarray], theta: np.ndarray) -> bool:
        """Return whether a point of the model has this theta."""
        return self.theta.stands_in(point, theta)

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values of theta's variables by name, from one vector."""
        return self.theta.unravel(theta)

    def ravel_latent(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """f as one vector from a point of the model: (C n,)."""
        return self.latent_vector.ravel(point)

    def unravel_latent(self, f: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values of the latent variables by name, from one vector for f and one for theta."""
        return self.latent_vector.unravel(f, theta)

    def sites_of(self, point: dict[str, np.ndarray]) -> int:
        """Number of values that each latent vector has at a point of the model."""
        return self.latent_vector.sites(point)

    def of_theta(self, outputs: list[TensorVariable]) -> tuple[list[TensorVariable], TensorVariable]:
        """Write graphs of the value variables as graphs of theta, one vector, which is returned with them."""
        return self.theta.write(outputs)

    def compile_gradient(self, inputs: list[TensorVariable], scalar: TensorVariable) -> Callable[..., Any]:
        """Compile a scalar graph of the value variables and its gradient in theta, as a function of (inputs, theta)."""
        return self.theta.compile_gradient(inputs, scalar)

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Gradient in theta of <covariance_bar, K(theta)> + mean_bar' m(theta); only the lower triangle is read."""
        return self.latent_prior.pullback(theta, covariance_bar, mean_bar)

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient of log p(theta) on the unconstrained scale."""
        return self.theta_prior.gradient(theta)

    def compile_theta_gradient(self) -> None:
        """Compile what the gradient of an evidence in theta needs, before workers have to.

        Raises
        ------
        ModelError
            If an operation in the model has no gradient.
        """
        with announced():
            self.log_prior_gradient(self.initial_theta)
            self.latent_prior.compile_pullback()

    def compile_derivatives(self, second: bool) -> None:
        """Compile the gradient of log p(y|f, theta) in f, or with the `second` derivative, before workers have to.

        The two derivatives at once are another function than the gradient alone: what needs both asks for both.
        """
        with announced():
            self.model_likelihood.compile_derivatives(second, self.initial_theta, self.initial_moments[0])

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over f.

        Raises
        ------
        ModelError
            If its Hessian in f is not diagonal, or not to be had.
        """
        self.model_likelihood.require_factorizing()

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them, and check them."""
        self.checks.refresh_data()
