"""From a PyMC model to what the core needs: theta -> (log p(theta), m, K), and the likelihood and its derivatives.

The latent vector is the model's multivariate normal variable, or its time series; every other free variable belongs to
theta. Each part is a module of its own; here they are put together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods import Likelihood
from pmgp.core.likelihoods.blocks import Divisible
from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.distributions.closed_forms import ClosedForm, find_closed_form
from pmgp.interface.graphs.compilation import Compiler, announced
from pmgp.interface.model.checks import refuse_other_processes
from pmgp.interface.model.graph_likelihood import PyTensorLikelihood
from pmgp.interface.model.joint_terms import Graphs, JointTerms, split_terms, theta_values
from pmgp.interface.model.latent_prior import BlockLatentPrior, LatentPrior, latent_prior
from pmgp.interface.model.latent_variable import ModelError, below, find_latent, find_latents
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.likelihood_terms import LikelihoodTerms
from pmgp.interface.model.markov import SeriesPrior
from pmgp.interface.model.missing import Imputation, imputed
from pmgp.interface.model.model_likelihood import (
    ClosedFormLikelihood,
    GraphLikelihood,
    ModelLikelihood,
    naming_gradients_in_f,
)
from pmgp.interface.model.observations import Observations, naming_shapes, refuse_shapes
from pmgp.interface.model.probes import Probes
from pmgp.interface.model.state_space import ProcessPrior
from pmgp.interface.model.theta_prior import ThetaPrior
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.model.time_series import is_process, is_time_series

__all__ = ["LatentGaussianModel", "ModelError", "PyTensorLikelihood", "find_latent"]


class LatentGaussianModel:
    """A PyMC model split into the parts of its joint density.

    Parameters
    ----------
    model : pymc.Model
    latent : variable or str, or a sequence of them, optional
        The latent vectors, if other multivariate normal variables are hyper-parameters.
    initial_point : dict, optional
        Values of all variables, for their shapes.
    compile_kwargs : dict, optional
        For PyTensor, as in `pymc.sample`.
    given_theta : bool
        Only f is to be updated. Then there may be no hyper-parameters, other free variables may depend on f, and
        whether the likelihood factorizes over f is left to :meth:`require_factorizing`.

    Attributes
    ----------
    latent_vector : LatentVector
        f.
    theta : ThetaVector
    theta_prior : ThetaPrior
    latent_prior : LatentPrior, BlockLatentPrior or SeriesPrior
    model_likelihood : ModelLikelihood
    observations : Observations
    prior_values : list of variables
        The value variables of the hyper-parameters that p(f|theta) depends on.

    Raises
    ------
    ModelError
        If the model is not of this form; the message says why.
    """

    model_likelihood: ModelLikelihood

    @threads_limited(1)
    @announced()
    def __init__(
        self,
        model: pm.Model,
        latent: TensorVariable | str | Sequence[TensorVariable | str] | None = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        given_theta: bool = False,
    ) -> None:
        self._given_theta = given_theta
        point = model.initial_point() if initial_point is None else initial_point
        latents = find_latents(model, latent)
        self.latent_vector = LatentVector(model, latents, point)
        refuse_shapes(model, self.latent_vector, below(model, latents), point, static=True)
        terms = split_terms(model, latents, hierarchical=given_theta)
        values = theta_values(model, latents)
        missing = imputed(model, latents)
        self.imputation = Imputation(model, missing) if missing else None
        if not values and not given_theta:
            raise ModelError(
                f"the model has no hyper-parameters besides {self.latent_name!r}, so that only the latent values "
                "are to be drawn: pm.sample(step=pmgp.EllipticalSlice()) does that"
            )
        self.theta = ThetaVector(values, point, Compiler(compile_kwargs))
        self.theta_prior = ThetaPrior(terms.prior, self.theta)
        self.latent_prior = self._read_prior(model)
        self._likelihood_graphs = self.latent_vector.write(terms.likelihood)
        self._likelihood_elements = self.theta.elements_of(terms.likelihood)
        self.prior_values = _read_by(model, latents)
        if not given_theta:
            self.theta.refuse([value for value in self.theta.discrete if value in self.prior_values])
        self.observations = Observations(model, self.latent_name, terms.variables)
        self._read_likelihood(model, terms, point)
        if not given_theta:
            self.refuse_other_processes(model)

    def _read_prior(self, model: pm.Model) -> LatentPrior | BlockLatentPrior | SeriesPrior:
        first = self.latent_vector.variables[0]
        if is_process(first):
            return ProcessPrior(model, self.latent_vector, self.theta)
        if is_time_series(first):
            return SeriesPrior(model, self.latent_vector, self.theta)
        return latent_prior(model, self.latent_vector, self.theta)

    def _read_likelihood(self, model: pm.Model, terms: JointTerms, point: dict[str, np.ndarray]) -> None:
        """Find the closed form of the likelihood, or compile its graph, and look at it with the model's data."""
        latents = self.latent_vector
        closed_form = find_closed_form(model, latents.variables, terms.variables, self.theta.compile_small, point)
        if closed_form is not None and self._suits(closed_form):
            self.model_likelihood = ClosedFormLikelihood(closed_form, self.observations)
            self.refresh_data()
            return
        with naming_shapes(model, latents, terms.variables, point), naming_gradients_in_f(self.latent_name):
            divided = self.latent_prior.markov
            self.model_likelihood = GraphLikelihood(terms, latents, self.theta, self.observations, point, divided)
            self.refresh_data()

    def _suits(self, closed_form: ClosedForm) -> bool:
        """Whether a closed form knows the terms of some latent values without the others, where f is Markov."""
        if not self.latent_prior.markov:
            return True
        closed_form.refresh(self.initial_theta)
        return isinstance(closed_form(self.initial_theta), Divisible)

    def _probes(self) -> Probes:
        discrete = self.theta.places(self.theta.discrete)
        return Probes(self.theta.initial, self.theta_prior, *self.initial_moments, self.latent_vector.number, discrete)

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
        return Graphs(self.theta_prior.graph, prior.mean, prior.covariance, self._likelihood_graphs)

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

    def prior(self, theta: np.ndarray) -> Any:
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
        """Whether a point of the model has this theta."""
        return self.theta.stands_in(point, theta)

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values of theta's variables by name, from one vector."""
        return self.theta.unravel(theta)

    def ravel_latent(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """f as one vector from a point of the model: (C n,)."""
        return self.latent_vector.ravel(point)

    def unravel_latent(self, f: np.ndarray) -> dict[str, np.ndarray]:
        """Values of the latent variables by name, from one vector."""
        return self.latent_vector.unravel(f)

    def sites_of(self, point: dict[str, np.ndarray]) -> int:
        """Number of values that each latent vector has at a point of the model."""
        return point[self.latent_vector.names[0]].shape[-1]

    def of_theta(self, outputs: list[TensorVariable]) -> tuple[list[TensorVariable], TensorVariable]:
        """Write graphs of the value variables as graphs of theta, one vector, which is returned with them."""
        return self.theta.write(outputs)

    def compile_gradient(self, inputs: list[TensorVariable], scalar: TensorVariable) -> Callable[..., Any]:
        """Compile a scalar graph of the value variables and its gradient in theta, as a function of (inputs, theta)."""
        return self.theta.compile_gradient(inputs, scalar)

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Gradient in theta of <covariance_bar, K(theta)> + mean_bar' m(theta); only the lower triangle is read."""
        return self.latent_prior.pullback(theta, covariance_bar, mean_bar)

    @property
    def likelihood_elements(self) -> list[int]:
        """The elements of theta that the likelihood depends on."""
        return self._likelihood_elements

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

    def refuse_discrete(self) -> None:
        """Refuse discrete hyper-parameters, where all of theta is to be moved or integrated out.

        Raises
        ------
        ModelError
            Naming them.
        """
        self.theta.refuse(self.theta.discrete)

    def refuse_other_processes(self, model: pm.Model) -> None:
        """Refuse a second latent process among the hyper-parameters of the PyMC model.

        Raises
        ------
        ModelError
            Naming it.
        """
        refuse_other_processes(model, self.latent_vector, self.theta, self.terms, self._probes())

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them, and what the likelihood depends on.

        Raises
        ------
        ModelError
            If the inputs are not finite, the observations are impossible or do not have the shape of their parameters,
            or the likelihood does not factorize.
        ValueError
            If observations, or parameters of a closed form at the initial point, are outside their domain.
        """
        self.latent_prior.refresh_data()
        probes = self._probes()
        self.model_likelihood.refresh_data(probes)
        if not self._given_theta:
            self.model_likelihood.refuse_impossible(probes)
            self.require_factorizing()


def _read_by(model: pm.Model, variables: list[TensorVariable]) -> list[TensorVariable]:
    """Return the value variables of the free variables that the distributions of others depend on directly."""
    inputs = [one for variable in variables for one in variable.owner.inputs]
    read = set(ancestors(inputs, blockers=model.basic_RVs))
    return [model.rvs_to_values[rv] for rv in model.free_RVs if rv in read]
