"""A PyMC model as functions for the core: theta -> (log p(theta), m, K), and the likelihood with its derivatives.

The latent vector is the model's multivariate normal variable, or its time series; every other free variable belongs to
theta. Each part has a module of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    """The parts of a PyMC model's joint density as functions of theta and f, made by `take_apart`.

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
        Terms of log p(y|f, theta) as graphs of the value variables and of f as one vector.
    likelihood_elements : list of int
        The elements of theta on which the likelihood depends.
    prior_values : list of variables
        The value variables of the hyper-parameters on which p(f|theta) depends.
    imputation : Imputation, optional
        The sampler of missing observations.
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
        """The variable that is f, in a model with one latent vector."""
        if self.latent_vector.several:
            raise ModelError(
                f"the model has several latent vectors ({self.latent_name}), which step methods take together; this "
                "function takes models with one"
            )
        return self.latent_vector.variables[0]

    @property
    def graphs(self) -> Graphs:
        """The parts of the joint density as graphs; a time series has none."""
        prior = self.latent_prior
        return Graphs(self.theta_prior.graph, prior.mean, prior.covariance, self.likelihood_graphs)

    @property
    def latent_value(self) -> TensorVariable:
        """f in graphs: its value variable, or a vector that stands for several."""
        return self.latent_vector.vector

    @property
    def latent_name(self) -> str:
        """The name of f in errors."""
        return self.latent_vector.name

    def log_prior(self, theta: np.ndarray) -> float:
        """Return log p(theta) on the unconstrained scale."""
        return self.theta_prior(theta)

    def prior(self, theta: np.ndarray) -> Prior:
        """Return p(f|theta)."""
        return self.latent_prior(theta)

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta), which is zero for every f if parameters in theta are outside their domain."""
        return self.model_likelihood(theta)

    @property
    def terms(self) -> LikelihoodTerms | None:
        """The terms of a likelihood that is given by its graph; None for a closed form."""
        return self.model_likelihood.terms

    def terms_by_name(self, rows: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the terms of a likelihood given by its graph, by name, for rows of f: (draws, n) to (draws, ...)."""
        assert self.terms is not None
        return self.terms.by_name(np.ascontiguousarray(self.latent_vector.predictors.of(rows)), theta)

    @property
    def sites_known(self) -> bool:
        """Whether each term of the likelihood depends on only one latent value, so that moments can be matched."""
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
        """The length of theta."""
        return self.theta.dimension

    @property
    def theta_names(self) -> list[str]:
        """The names of theta's value variables."""
        return self.theta.names

    @property
    def compile_function(self) -> Compiler:
        """The compiler of graphs."""
        return self.theta.compile_function

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return theta as one vector from a point of the model."""
        return self.theta.ravel(point)

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of theta's variables by name, from one vector."""
        return self.theta.unravel(theta)

    def ravel_latent(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return f as one vector from a point of the model: (C n,)."""
        return self.latent_vector.ravel(point)

    def unravel_latent(self, f: np.ndarray, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of the latent variables by name, from one vector for f and one for theta."""
        return self.latent_vector.unravel(f, theta)

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of <covariance_bar, K> + mean_bar' m; only the lower triangle is read."""
        return self.latent_prior.pullback(theta, covariance_bar, mean_bar)

    def log_prior_gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of log p(theta) on the unconstrained scale."""
        return self.theta_prior.gradient(theta)

    def compile_theta_gradient(self) -> None:
        """Compile the functions for the gradient of an evidence in theta here, so that workers need not."""
        with announced():
            self.log_prior_gradient(self.initial_theta)
            self.latent_prior.compile_pullback()

    def compile_derivatives(self, second: bool) -> None:
        """Compile the gradient of log p(y|f, theta) in f, or gradient and second derivative, so that workers need not.

        These are two separate functions: request `second` for algorithms that use both derivatives.
        """
        with announced():
            self.model_likelihood.compile_derivatives(second, self.initial_theta, self.initial_moments[0])

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over f, or that may not."""
        self.model_likelihood.require_factorizing()

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them, and check them."""
        self.checks.refresh_data()
