"""From a PyMC model to what the core needs: theta -> (log p(theta), m, K), and the likelihood and its derivatives.

The latent vector is the model's multivariate normal variable; every other free variable belongs to theta.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import Likelihood
from pmgp.core.numerics.threads import threads_limited
from pmgp.interface.covariance.blocked import BlockedCovariance
from pmgp.interface.distributions.closed_forms import find_closed_form
from pmgp.interface.graphs.compilation import CompiledWhenCalled, Compiler, announced
from pmgp.interface.graphs.numpy_graph import UnsupportedGraphError
from pmgp.interface.graphs.theta_function import ThetaFunction
from pmgp.interface.graphs.unrolling import unrolled_sum
from pmgp.interface.model.checks import (
    naming_missing_gradients,
    probes,
    refuse_impossible,
    refuse_infinite_inputs,
    refuse_other_processes,
)
from pmgp.interface.model.graph_likelihood import PyTensorLikelihood, compile_likelihood
from pmgp.interface.model.latent_variable import ModelError, below, find_latent, refuse_children
from pmgp.interface.model.likelihood_terms import LikelihoodTerms
from pmgp.interface.model.observations import Observations, naming_shapes, refuse_shapes

__all__ = ["LatentGaussianModel", "ModelError", "PyTensorLikelihood", "find_latent"]

# Relative to the largest covariance. A covariance taken apart wrongly is far off; one that takes the root of a squared
# distance differs from itself by the root of its rounding error.
SAME = 1e-7


class Graphs(NamedTuple):
    """The parts of the joint density as PyTensor graphs of the model's value variables.

    Attributes
    ----------
    log_prior : scalar
    mean, covariance : vector and matrix
        Of f.
    likelihood : list
        Terms of log p(y|f, theta).
    """

    log_prior: TensorVariable
    mean: TensorVariable
    covariance: TensorVariable
    likelihood: list[TensorVariable]


class LatentGaussianModel:
    """A PyMC model split into the parts of its joint density.

    Parameters
    ----------
    model : pymc.Model
    latent : variable or str, optional
        The latent vector, if the model has several candidates.
    initial_point : dict, optional
        Values of all variables, for their shapes.
    compile_kwargs : dict, optional
        For PyTensor, as in `pymc.sample`.
    given_theta : bool
        Only f is to be updated. Then there may be no hyper-parameters, other free variables may depend on f, and
        whether the likelihood factorizes over f is left to :meth:`require_factorizing`.

    Raises
    ------
    ModelError
        If the model is not of this form; the message says why.
    """

    @threads_limited(1)
    @announced()
    def __init__(
        self,
        model: pm.Model,
        latent: TensorVariable | str | None = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        given_theta: bool = False,
    ) -> None:
        self.compile_function = Compiler(compile_kwargs)
        self._given_theta = given_theta
        point = model.initial_point() if initial_point is None else initial_point
        self.latent = find_latent(model, latent)
        self.latent_value = model.rvs_to_values[self.latent]
        refuse_shapes(model, self.latent, below(model, self.latent), point, static=True)
        likelihood_variables, likelihood_terms, prior_terms = _split_terms(
            model, self.latent, self.latent_value, hierarchical=given_theta
        )
        self.theta_values = _theta_values(model, self.latent)
        if not self.theta_values and not given_theta:
            raise ModelError(
                f"the model has no hyper-parameters besides {self.latent.name!r}: there is nothing to infer about theta"
            )
        self._point = {value.name: np.asarray(point[value.name], dtype=float) for value in self.theta_values}
        mean_and_covariance = model.replace_rvs_by_values(list(self.latent.owner.op.dist_params(self.latent.owner)))
        log_prior = pt.add(*[t.sum() for t in prior_terms], 0.0)
        self._log_prior = self._compile_log_prior(log_prior, unrolled_sum(prior_terms))
        self._blocked = self._compile_blocked(mean_and_covariance)
        self._moments = CompiledWhenCalled(partial(self._compile, [], mean_and_covariance))
        self.graphs = Graphs(log_prior, mean_and_covariance[0], mean_and_covariance[1], likelihood_terms)
        self.observations = Observations(model, self.latent, likelihood_variables)
        self._closed_form = find_closed_form(model, self.latent, likelihood_variables, self._small_function)
        self._coupling: str | None = None
        self._second_derivative: Callable[..., Any] | None = None
        self._pullback: Callable[..., Any] | None = None
        if self._closed_form is None:
            names = [variable.name for variable in likelihood_variables]
            with (
                naming_shapes(model, self.latent, likelihood_variables, point),
                naming_missing_gradients(repr(self.latent.name), "write it with PyTensor's own, or give it a gradient"),
            ):
                f = np.asarray(point[self.latent_value.name], dtype=float)
                at = f + np.linspace(-0.5, 0.5, f.size), self.initial_theta
                self._functions = compile_likelihood(names, likelihood_terms, self.latent_value, self._compile, at)
                self.refresh_data()
        else:
            self.refresh_data()
        if not given_theta:
            refuse_other_processes(model, self)

    @property
    def sites_known(self) -> bool:
        """Whether no term of the likelihood depends on several latent values, so that moments can be matched."""
        return self.terms is None or self.terms.separate

    @property
    def terms(self) -> LikelihoodTerms | None:
        """The terms of a likelihood that is given by its graph; None for a closed form, whose sites are known."""
        return None if self._closed_form is not None else self._functions.terms

    @property
    def initial_theta(self) -> np.ndarray:
        """Theta at the model's initial point."""
        return self.ravel(self._point)

    @property
    def dimension(self) -> int:
        """Length of theta."""
        return sum(value.size for value in self._point.values())

    @property
    def theta_names(self) -> list[str]:
        """Names of theta's value variables."""
        return list(self._point)

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Theta as one vector from a point of the model."""
        if not self._point:
            return np.empty(0)
        return DictToArrayBijection.map({name: np.asarray(point[name], dtype=float) for name in self._point}).data

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Values of theta's variables by name, from one vector."""
        parts = {}
        start = 0
        for name, value in self._point.items():
            parts[name] = theta[start : start + value.size].reshape(value.shape).copy()
            start += value.size
        return parts

    def __getstate__(self) -> dict[str, Any]:
        """Leave f behind, as PyMC's random variables cannot be pickled; its value variable has the same name."""
        return self.__dict__ | {"latent": self.latent_value}

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over f.

        Raises
        ------
        ModelError
            If its Hessian in f is not diagonal, or not to be had.
        """
        if self._coupling is not None:
            raise ModelError(
                f"the likelihood does not factorize over {self.latent.name!r}: {self._coupling}; "
                "each observation must depend on one latent value"
            )

    def log_prior(self, theta: np.ndarray) -> float:
        """Log p(theta) on the unconstrained scale."""
        return float(self._log_prior(theta)[0])

    def prior(self, theta: np.ndarray) -> DensePrior:
        """p(f|theta)."""
        if self._blocked is not None:
            return DensePrior(*self._blocked(theta))
        mean, covariance = self._moments(theta)
        # The covariance is symmetric: the transpose of PyTensor's row-major array is the same matrix in LAPACK's order.
        return DensePrior(np.asarray(mean, dtype=float), covariance.T)

    def likelihood(self, theta: np.ndarray) -> Likelihood:
        """p(y|f, theta); zero for every f where theta's parameters of the likelihood are outside their domain."""
        if self._closed_form is not None:
            return self._closed_form(theta)
        return PyTensorLikelihood(self._functions, theta)

    def compile_derivatives(self, second: bool) -> None:
        """Compile the gradient of log p(y|f, theta) in f, or with the `second` derivative, before workers have to.

        The two derivatives at once are another function than the gradient alone: what needs both asks for both.
        """
        likelihood, f = self.likelihood(self.initial_theta), self.initial_moments[0]
        with announced():
            if second:
                likelihood.derivatives(f)
            else:
                likelihood.gradient(f)

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
        if self._blocked is not None:
            self._blocked.refresh_data()
        prior = self.prior(self.initial_theta)
        self.initial_moments = prior.mean, np.einsum("ii->i", prior.covariance).copy()
        refuse_infinite_inputs(self.latent.name, [self.graphs.mean, self.graphs.covariance], prior)
        if self._closed_form is None:
            self._probe()
        else:
            self.observations.require_length(prior.size)
            self._closed_form.refresh(self.initial_theta)
        if not self._given_theta:
            refuse_impossible(self)
            self.require_factorizing()

    def of_theta(self, outputs: list[TensorVariable]) -> tuple[list[TensorVariable], TensorVariable]:
        """Write graphs of the value variables as graphs of theta, one vector, which is returned with them."""
        if not self.theta_values:
            return outputs, pt.vector("theta")
        return join_nonshared_inputs(self._point, outputs, self.theta_values)

    def covariance_pullback(self, theta: np.ndarray, covariance_bar: np.ndarray, mean_bar: np.ndarray) -> np.ndarray:
        """Gradient in theta of <covariance_bar, K(theta)> + mean_bar' m(theta); compiled when it is first needed.

        Parameters
        ----------
        theta : (dimension,) array
        covariance_bar : (n, n) array
            Symmetric, both triangles.
        mean_bar : (n,) array
        """
        if self._pullback is None:
            mean, covariance = self.graphs.mean, self.graphs.covariance
            bars = [pt.matrix("covariance_bar"), pt.vector("mean_bar")]
            self._pullback = self.compile_gradient(bars, (bars[0] * covariance).sum() + (bars[1] * mean).sum())
        return self._pullback(np.ascontiguousarray(covariance_bar), np.ascontiguousarray(mean_bar), theta)[1]

    def compile_gradient(self, inputs: list[TensorVariable], scalar: TensorVariable) -> Callable[..., Any]:
        """Compile a scalar graph of the value variables and its gradient in theta, as a function of (inputs, theta)."""
        [scalar], theta = self.of_theta([scalar])
        with naming_missing_gradients("the hyper-parameters", "samplers that use no gradient, as PseudoMarginal, work"):
            gradient = pt.grad(scalar, theta, disconnected_inputs="ignore")
        return self.compile_function([*inputs, theta], [scalar, gradient])

    def _compile(
        self, inputs: list[TensorVariable], outputs: list[TensorVariable], interpreted: bool = False
    ) -> Callable[..., Any]:
        """Make graphs of the value variables a function of (inputs, theta)."""
        outputs, theta = self.of_theta(outputs)
        return self.compile_function([*inputs, theta], outputs, interpreted)

    def _small_function(self, outputs: list[TensorVariable]) -> ThetaFunction:
        """A function of theta with a few small values."""
        outputs, theta = self.of_theta(outputs)
        outputs = rewrite_graph(outputs, include=("canonicalize", "stabilize", "specialize"))
        return ThetaFunction(theta, outputs, self.compile_function)

    def _compile_log_prior(self, log_prior: TensorVariable, unrolled: TensorVariable) -> Callable[..., Any]:
        """The unrolled graph compiles faster where it has the same value."""
        theta = self.initial_theta
        expected, found = self._compile([], [log_prior, unrolled], interpreted=True)(theta)
        function = self._compile([], [unrolled if _same(expected, found) else log_prior])
        # Numba compiles at the first call: here, and not in each worker.
        function(theta)
        return function

    def _compile_blocked(self, mean_and_covariance: list[TensorVariable]) -> BlockedCovariance | None:
        """The faster way to K, and the one that compiles faster, where there is one."""
        if not self.theta_values:
            return None
        graphs, variable = self.of_theta(mean_and_covariance)
        try:
            blocked = BlockedCovariance(graphs[0], graphs[1], variable, self.compile_function)
        except UnsupportedGraphError:
            return None
        theta = self.initial_theta
        mean, covariance = self._compile([], mean_and_covariance, interpreted=True)(theta)
        own_mean, own_covariance = blocked(theta)
        same = _same(np.tril(covariance), np.tril(own_covariance)) and _same(mean, own_mean)
        return blocked if same else None

    def _probe(self) -> None:
        """Find out whether the likelihood factorizes, and which latent value each of its terms belongs to."""
        places = list(probes(self))
        terms = self._functions.terms
        theta, f, _ = places[0]
        for name, values in terms.by_name(f[None, :], theta).items():
            self.observations.refuse_shape(name, values.shape[1:], f.size)
        terms.locate(places)
        self._coupling = None if terms.separate else self._coupling_by_hessian(places)

    def _coupling_by_hessian(self, places: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> str | None:
        """Compare the Hessian in f with its row sums along a random direction, equal only if it is diagonal.

        So a likelihood factorizes whose terms do not, such as one that is a single sum. The answer is what speaks
        against it.
        """
        if self._second_derivative is None:
            direction = pt.vector("direction")
            gradient = pt.grad(pt.add(*[term.sum() for term in self.graphs.likelihood], 0.0), self.latent_value)
            sums = [(gradient * direction).sum(), gradient.sum()]
            derivatives = [pt.grad(total, self.latent_value, disconnected_inputs="ignore") for total in sums]
            self._second_derivative = self._compile([self.latent_value, direction], derivatives, interpreted=True)
        rng = np.random.default_rng(0)
        seen = False
        for theta, f, _ in places:
            direction = rng.standard_normal(f.shape)
            along, diagonal = self._second_derivative(f, direction, theta)
            diagonal = direction * diagonal
            if not np.isfinite([along, diagonal]).all():
                continue
            if not _close(along, diagonal):
                return "its Hessian is not diagonal"
            seen = True
        return None if seen else "some of its terms depend on several latent values, and its Hessian is not finite"


def _same(expected: np.ndarray, found: np.ndarray) -> bool:
    tolerance = SAME * np.abs(expected, where=np.isfinite(expected), out=np.zeros(expected.shape)).max(initial=0.0)
    return bool(np.allclose(found, expected, rtol=0.0, atol=tolerance, equal_nan=True))


def _close(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-8 * (1.0 + np.abs(second).max())))


def _theta_values(model: pm.Model, latent: TensorVariable) -> list[TensorVariable]:
    values = [model.rvs_to_values[rv] for rv in model.free_RVs if rv is not latent]
    discrete = [value.name for value in values if value.dtype not in ("float32", "float64")]
    if discrete:
        raise ModelError(f"hyper-parameters must be continuous; these are not: {', '.join(discrete)}")
    return values


def _split_terms(
    model: pm.Model, latent: TensorVariable, latent_value: TensorVariable, hierarchical: bool
) -> tuple[list[TensorVariable], list[TensorVariable], list[TensorVariable]]:
    """Variables and terms of the log-density that depend on f, and the terms that do not.

    Free variables may depend on f only in a `hierarchical` model.
    """
    variables = [v for v in (*model.basic_RVs, *model.potentials) if v is not latent]
    terms = model.logp(vars=variables, sum=False)
    depends = [latent_value in set(ancestors([term])) for term in terms]
    likelihood_variables = [v for v, d in zip(variables, depends, strict=True) if d]
    children = [v for v in likelihood_variables if v in model.free_RVs]
    if children and not hierarchical:
        refuse_children(model, latent, children)
    if not likelihood_variables:
        raise ModelError(f"no observed variable depends on {latent.name!r}")
    return (
        likelihood_variables,
        [t for t, d in zip(terms, depends, strict=True) if d],
        [t for t, d in zip(terms, depends, strict=True) if not d],
    )
