"""From a PyMC model to what the core needs: theta -> (log p(theta), m, K), and the likelihood and its derivatives.

The latent vector is the model's multivariate normal variable; every other free variable belongs to theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.blocking import DictToArrayBijection
from pymc.pytensorf import compile as compile_pytensor
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.covariance import BlockedCovariance, UnsupportedGraphError
from pmgp.distributions.closed_forms import find_closed_form
from pmgp.latent import DensePrior
from pmgp.likelihoods import Likelihood
from pmgp.quadrature import TiltedMoments, tilted_moments
from pmgp.threads import threads_limited

__all__ = ["LatentGaussianModel", "ModelError", "PyTensorLikelihood", "find_latent"]

# Below this number of latent values PyTensor's own K is as fast.
SMALLEST_BLOCKED = 128
# Relative to the largest covariance.
SAME = 1e-12


class ModelError(ValueError):
    """A PyMC model that is not of the form p(theta) N(f|m, K) prod_i p(y_i|f_i, theta)."""


def find_latent(model: pm.Model, latent: TensorVariable | str | None = None) -> TensorVariable:
    """Find the latent vector f: the free multivariate normal variable of the model.

    Parameters
    ----------
    model : pymc.Model
    latent : variable or str, optional
        Which one, if there are several.

    Raises
    ------
    ModelError
        If there is none, or there are several and `latent` does not say which.
    """
    normal = [rv for rv in model.free_RVs if rv.owner is not None and isinstance(rv.owner.op, MvNormalRV)]
    # What depends on another one is a conditional of it at new inputs.
    candidates = [rv for rv in normal if not set(normal) & (set(ancestors([rv])) - {rv})]
    names = ", ".join(rv.name for rv in candidates)
    if latent is not None:
        name = latent if isinstance(latent, str) else latent.name
        for rv in candidates:
            if rv.name == name or model.rvs_to_values[rv].name == name:
                return _check_vector(rv)
        raise ModelError(
            f"{name!r} is not a free multivariate normal variable of the model; those are: {names or 'none'}"
        )
    if not candidates:
        whitened = [rv.name for rv in model.free_RVs if rv.name.endswith("_rotated_")]
        hint = (
            f"{whitened[0]!r} is a whitened Gaussian process: build it with gp.prior(..., reparameterize=False)"
            if whitened
            else "build one with gp.prior(..., reparameterize=False) or pm.MvNormal"
        )
        raise ModelError(f"the model has no latent multivariate normal variable; {hint}")
    if len(candidates) > 1:
        raise ModelError(f"the model has several multivariate normal variables ({names}); say which with latent=...")
    return _check_vector(candidates[0])


def _check_vector(rv: TensorVariable) -> TensorVariable:
    if rv.ndim != 1:
        raise ModelError(f"the latent variable {rv.name!r} has {rv.ndim} dimensions; only vectors are supported")
    return rv


class PyTensorLikelihood:
    """A likelihood given by compiled PyTensor functions, at one theta.

    Parameters
    ----------
    functions : LikelihoodFunctions
    theta : (dimension,) array
    """

    def __init__(self, functions: LikelihoodFunctions, theta: np.ndarray) -> None:
        self.functions = functions
        self.theta = theta

    def log_likelihood(self, f: np.ndarray) -> np.ndarray:
        """Log p(y|f): (..., n) -> (...)."""
        rows = np.ascontiguousarray(f.reshape(-1, f.shape[-1]))
        return self.functions.batch(rows, self.theta).reshape(f.shape[:-1])

    def gradient(self, f: np.ndarray) -> np.ndarray:
        """First derivative in f: (n,) -> (n,)."""
        return self.functions.gradient(np.ascontiguousarray(f), self.theta)

    def curvature(self, f: np.ndarray) -> np.ndarray:
        """Minus the second derivative in f: (n,) -> (n,)."""
        return self.functions.curvature(np.ascontiguousarray(f), self.theta)

    def third_derivative(self, f: np.ndarray) -> np.ndarray:
        """Third derivative in f: (n,) -> (n,). Compiled when it is first needed."""
        return self.functions.third(np.ascontiguousarray(f), self.theta)

    def tilted_moments(
        self, mean: np.ndarray, variance: np.ndarray, near: tuple[np.ndarray, np.ndarray] | None = None
    ) -> TiltedMoments | None:
        """Moments of the sites by quadrature; None where the terms of log p(y|f) are not one a latent value."""
        if not self.functions.sites_known:
            return None
        return tilted_moments(lambda f: self.functions.sites(f, self.theta), mean, variance, near)

    def fisher_information(self, f: np.ndarray) -> np.ndarray:
        """Size of the curvature: positive like the Fisher information, which the graph of log p does not give."""
        return np.abs(self.curvature(f))


@dataclass
class LikelihoodFunctions:
    """Compiled functions of (f, theta); `batch` and `sites` take f as (draws, n).

    `batch` returns (draws,) and `sites` the single terms, (draws, n) if they are known to belong to the latent values
    one by one.
    """

    batch: Callable[..., np.ndarray]
    gradient: Callable[..., np.ndarray]
    curvature: Callable[..., np.ndarray]
    third: Callable[..., np.ndarray]
    sites: Callable[..., np.ndarray]
    sites_known: bool = False


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
    def __init__(
        self,
        model: pm.Model,
        latent: TensorVariable | str | None = None,
        initial_point: dict[str, np.ndarray] | None = None,
        compile_kwargs: dict[str, Any] | None = None,
        given_theta: bool = False,
    ) -> None:
        self.compile_kwargs = dict(compile_kwargs or {})
        point = model.initial_point() if initial_point is None else initial_point
        self.latent = find_latent(model, latent)
        self.latent_value = model.rvs_to_values[self.latent]
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
        self._log_prior = self._compile([], [log_prior])
        self._moments = self._compile([], mean_and_covariance)
        self._blocked = self._compile_blocked(mean_and_covariance)
        self.graphs = Graphs(log_prior, mean_and_covariance[0], mean_and_covariance[1], likelihood_terms)
        self._closed_form = find_closed_form(model, self.latent, likelihood_variables, self._compile)
        self._factorizes = True
        self._pullback: Callable[..., Any] | None = None
        if self._closed_form is None:
            self._functions = self._compile_likelihood(likelihood_terms)
            self._probe(likelihood_terms, np.asarray(point[self.latent_value.name], dtype=float))
        if not given_theta:
            self.require_factorizing()
        self.refresh_data()

    @property
    def sites_known(self) -> bool:
        """Whether the terms of the likelihood are known one by one, so that their moments can be matched."""
        return self._closed_form is not None or self._functions.sites_known

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

    def require_factorizing(self) -> None:
        """Refuse a likelihood that does not factorize over f.

        Raises
        ------
        ModelError
            If its Hessian in f is not diagonal.
        """
        if not self._factorizes:
            raise ModelError(
                f"the likelihood does not factorize over {self.latent.name!r}: its Hessian is not diagonal; "
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

    def refresh_data(self) -> None:
        """Read the observed values again, as `pymc.set_data` may have changed them.

        Raises
        ------
        ValueError
            If they, or the parameters of the likelihood at the model's initial point, are outside their domain.
        """
        if self._blocked is not None:
            self._blocked.refresh_data()
        if self._closed_form is not None:
            self._closed_form.refresh(self.ravel(self._point))

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
        gradient = pt.grad(scalar, theta, disconnected_inputs="ignore")
        return self.compile_function([*inputs, theta], [scalar, gradient])

    def _compile(self, inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., Any]:
        outputs, theta = self.of_theta(outputs)
        return self.compile_function([*inputs, theta], outputs)

    def compile_function(self, inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., Any]:
        """Compile with the model's settings; inputs are trusted to be float64 arrays, in C order."""
        function = compile_pytensor(inputs, outputs, on_unused_input="ignore", **self.compile_kwargs)
        function.trust_input = True
        return function

    def _compile_blocked(self, mean_and_covariance: list[TensorVariable]) -> BlockedCovariance | None:
        """The faster way to K where there is one and n is large enough for it to be so."""
        theta = self.ravel(self._point)
        mean, covariance = self._moments(theta)
        if len(mean) < SMALLEST_BLOCKED or not self.theta_values:
            return None
        graphs, variable = self.of_theta(mean_and_covariance)
        try:
            blocked = BlockedCovariance(graphs[0], graphs[1], variable, self.compile_function)
        except UnsupportedGraphError:
            return None
        difference = np.abs(np.tril(covariance) - np.tril(blocked(theta)[1]))
        same = difference.max() <= SAME * np.abs(covariance).max()
        return blocked if same and np.array_equal(mean, blocked(theta)[0]) else None

    def _compile_likelihood(self, terms: list[TensorVariable]) -> LikelihoodFunctions:
        f = self.latent_value
        total = pt.add(*[term.sum() for term in terms], 0.0)
        gradient = pt.grad(total, f)
        curvature = -pt.grad(gradient.sum(), f, disconnected_inputs="ignore")
        third = -pt.grad(curvature.sum(), f, disconnected_inputs="ignore")
        rows = pt.matrix("f_rows", dtype=f.dtype)
        # Terms that are not vectors cannot be told apart by latent value; their sum stands in and is never used.
        vectors = all(term.ndim == 1 for term in terms)
        sites = pt.add(*terms, 0.0) if vectors else total
        compiled = [
            self._compile([rows], [vectorize_graph(total, replace={f: rows})]),
            self._compile([f], [gradient]),
            self._compile([f], [curvature]),
            self._compile([rows], [vectorize_graph(sites, replace={f: rows})]),
        ]
        batch, first, second, single = (_First(function) for function in compiled)
        lazily = _First(_CompiledWhenCalled(partial(self._compile, [f], [third])))
        return LikelihoodFunctions(batch, first, second, lazily, single)

    def _probe(self, terms: list[TensorVariable], f: np.ndarray) -> None:
        """Find out whether the likelihood factorizes, and whether its terms are the sites in their order.

        The Hessian in f is compared with its row sums along a random direction, equal only if it is diagonal; the
        gradient of a randomly weighted sum of the terms with the weighted gradient, equal only if term i depends on
        f_i alone.
        """
        rng = np.random.default_rng(0)
        v, f = rng.standard_normal(f.shape), f + 0.1 * rng.standard_normal(f.shape)
        theta = self.ravel(self._point)
        direction = pt.vector("direction")
        gradient = pt.grad(pt.add(*[term.sum() for term in terms], 0.0), self.latent_value)
        along = self._derivative((gradient * direction).sum(), direction)(f, v, theta)[0]
        diagonal = -self._functions.curvature(f, theta)
        self._factorizes = _close(along, diagonal * v)
        if self._factorizes and self._functions.sites(f[None, :], theta).shape == (1, len(f)):
            weighted = self._derivative((pt.add(*terms, 0.0) * direction).sum(), direction)(f, v, theta)[0]
            self._functions.sites_known = _close(weighted, v * self._functions.gradient(f, theta))

    def _derivative(self, scalar: TensorVariable, direction: TensorVariable) -> Callable[..., Any]:
        """Compiled gradient in f of a scalar that depends on f, a direction and theta."""
        gradient = pt.grad(scalar, self.latent_value, disconnected_inputs="ignore")
        return self._compile([self.latent_value, direction], [gradient])


def _close(first: np.ndarray, second: np.ndarray) -> bool:
    return bool(np.allclose(first, second, rtol=1e-6, atol=1e-8 * (1.0 + np.abs(second).max())))


class _First:
    """Call a compiled function and return its only output; a class, so that it can be pickled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: np.ndarray) -> np.ndarray:
        return self.function(*args)[0]


class _CompiledWhenCalled:
    """A function that is compiled by its first call; compiled or not, it can be pickled."""

    def __init__(self, compile_function: Callable[[], Callable[..., Any]]) -> None:
        self.compile_function = compile_function
        self.function: Callable[..., Any] | None = None

    def __call__(self, *args: np.ndarray) -> Any:
        if self.function is None:
            self.function = self.compile_function()
        return self.function(*args)


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
    children = [v.name for v in likelihood_variables if v in model.free_RVs]
    if children and not hierarchical:
        raise ModelError(
            f"the free variables {', '.join(children)} depend on {latent.name!r}; only observed ones may. "
            "Where PyMC made them of missing observations, leave those out: pmgp.predict gives their distribution"
        )
    if not likelihood_variables:
        raise ModelError(f"no observed variable depends on {latent.name!r}")
    return (
        likelihood_variables,
        [t for t, d in zip(terms, depends, strict=True) if d],
        [t for t, d in zip(terms, depends, strict=True) if not d],
    )
