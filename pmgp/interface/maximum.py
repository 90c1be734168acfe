"""Hyper-parameters that maximize the approximate marginal likelihood, with or without their prior."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.util import get_default_varnames
from pytensor.graph.traversal import ancestors
from scipy.optimize import OptimizeResult, minimize

from pmgp.core import approximations
from pmgp.core.approximations import Differentiable, ExpectationPropagation, Laplace
from pmgp.core.gaussians import Posterior
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.core.registry import resolve
from pmgp.interface.graphs.compilation import CompiledWhenCalled
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.points import value_point
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.steps.starts import unusable_start

# The gradient holds at the fixed point; fits are tighter here than in a chain, whose exactness does not depend on it.
TIGHT: dict[str, Differentiable] = {
    "laplace": Laplace(tolerance=1e-12),
    "ep": ExpectationPropagation(tolerance=1e-8, max_sweeps=200),
}
# Replaces the log-density where it does not exist, so that the line search turns back.
VERY_LOW = -1e25


class Maximum(NamedTuple):
    """A maximum of the approximate evidence.

    Attributes
    ----------
    point : dict
        Values of all variables on their own scale, f at the mean of q.
    log_evidence : float
        The approximation's log p(y|theta).
    log_prior : float
        Log p(theta) on theta's own scale, without Jacobian.
    approximation : Posterior
        q(f) at the maximum; ``approximation.sample(rng, size)`` draws from it. It has several latent vectors one after
        another.
    converged : bool
    message : str
        Message of the optimizer.
    """

    point: dict[str, np.ndarray]
    log_evidence: float
    log_prior: float
    approximation: Posterior
    converged: bool
    message: str

    def __repr__(self) -> str:
        """The figures, and the point without its long vectors."""
        return (
            f"Maximum(log evidence {self.log_evidence:.2f}, log prior {self.log_prior:.2f}, "
            f"{'converged' if self.converged else 'not converged'}, at {_in_words(self.point)})"
        )


def _in_words(point: dict[str, np.ndarray]) -> str:
    """Numbers, then the shapes of arrays."""
    parts = sorted(point.items(), key=lambda item: item[1].ndim)
    return ", ".join(f"{k} of shape {v.shape}" if v.ndim else f"{k} = {v:.3g}" for k, v in parts)


def find_map(
    model: pm.Model | None = None,
    *,
    approximation: Differentiable | str = "ep",
    prior: bool = True,
    start: dict[str, Any] | None = None,
    latent: Any = None,
    max_iterations: int = 200,
    compile_kwargs: dict[str, Any] | None = None,
) -> Maximum:
    """Maximize log p~(y|theta) + log p(theta), with f integrated out approximately.

    As in `pymc.find_MAP`, the prior density is that on theta's own scale: the Jacobian of the transformation to the
    unconstrained scale, where the optimizer works, is left out. Unlike it, f is integrated out, so that the maximum is
    not at a degenerate theta.

    Parameters
    ----------
    model : pymc.Model, optional
        The model on the context stack by default.
    approximation : "ep", "laplace", ExpectationPropagation or Laplace
        The names select tight tolerances, which the gradient needs. With a softmax of four classes or more the
        gradient of "ep" has an error of a few percent, so the result is only near its maximum; the gradient of
        "laplace" is exact. Both are rough for several latent vectors with a likelihood that is not log-concave.
    prior : bool
        If False, theta maximizes the marginal likelihood alone ("type II").
    start : dict, optional
        Values of hyper-parameters to start from, as in :func:`pmgp.marginal.log_likelihood`.
    latent : variable or str, or a sequence of them, optional
        The variables f, if other multivariate normal variables are hyper-parameters.
    max_iterations : int
        Largest number of iterations of L-BFGS.
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.

    Returns
    -------
    Maximum

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs.
    ValueError
        For unknown approximations, and if the objective is not finite at the start.

    References
    ----------
    Rasmussen, C. E. and Williams, C. K. I. (2006). Gaussian Processes for Machine Learning, sections 5.5.1 and 5.5.2.

    Examples
    --------
    >>> import numpy as np, pmgp
    >>> X = np.linspace(0.0, 1.0, 20)[:, None]
    >>> model = pmgp.models.classifier(X, X[:, 0] > 0.5)
    >>> found = pmgp.find_map(model)
    >>> found
    Maximum(log evidence -5.37, log prior -3.25, converged, at lengthscale = 0.263, variance = 7.03, f of shape (20,))
    """
    model = pm.modelcontext(model)
    method = TIGHT.get(approximation) if isinstance(approximation, str) else None
    method = method or resolve(approximation, approximations.NAMES, Differentiable, "approximation")
    values = value_point(model, start)
    parts = take_apart(model, latent, values, compile_kwargs)
    parts.checks.refuse_discrete()
    objective = Objective(model, parts, method, prior)
    with threads_limited(suitable_threads(parts.sites_of(values))):
        found = _maximize(objective, parts.ravel(values), max_iterations)
        q = objective.fit(found.x)
    if q is None:
        raise ValueError(unusable_start(parts, found.x))
    point = _natural_point(model, parts, found.x, q.mean)
    return Maximum(point, q.log_evidence, objective.log_prior(found.x)[0], q, bool(found.success), str(found.message))


def _maximize(objective: Objective, theta: np.ndarray, max_iterations: int) -> OptimizeResult:
    if objective(theta)[0] <= VERY_LOW:
        raise ValueError(unusable_start(objective.parts, theta))
    return minimize(objective.negative, theta, jac=True, method="L-BFGS-B", options={"maxiter": max_iterations})


class Objective:
    """Log p~(y|theta), plus log p(theta) if `prior`, and its gradient in theta.

    Parameters
    ----------
    model : pymc.Model
    parts : LatentGaussianModel
    approximation : Differentiable
    prior : bool
    """

    def __init__(self, model: pm.Model, parts: LatentGaussianModel, approximation: Differentiable, prior: bool) -> None:
        self.parts = parts
        self.approximation = approximation
        self.prior = prior
        graph = _log_prior_without_jacobian(model, parts)
        self._log_prior = CompiledWhenCalled(partial(parts.compile_gradient, [], graph))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Value, and gradient of shape (dimension,); a very low value where it does not exist."""
        log_prior, prior_gradient = self.log_prior(theta)
        q = self.fit(theta)
        if q is None:
            return VERY_LOW, np.zeros_like(theta)
        value, gradient = q.log_evidence, self.evidence_gradient(theta, q)
        if gradient is None:
            return VERY_LOW, np.zeros_like(theta)
        if self.prior:
            value, gradient = value + log_prior, gradient + prior_gradient
        if not np.isfinite(value) or not np.isfinite(gradient).all():
            return VERY_LOW, np.zeros_like(theta)
        return value, gradient

    def negative(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the function to minimize, with its gradient."""
        value, gradient = self(theta)
        return -value, -gradient

    def log_prior(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Log p(theta) without Jacobian, and its gradient on the unconstrained scale."""
        value, gradient = self._log_prior(theta)
        return float(value), gradient

    def fit(self, theta: np.ndarray) -> Posterior | None:
        """q from a start that does not depend on the optimizer's path; None where K is indefinite."""
        return self.approximation.fit(self.parts.prior(theta), self.parts.likelihood(theta))

    def evidence_gradient(self, theta: np.ndarray, q: Posterior) -> np.ndarray | None:
        """Gradient of the log-evidence; None where K turns out to be indefinite."""
        return evidence_gradient(self.parts, self.approximation, theta, q, self.parts.likelihood(theta))


def _log_prior_without_jacobian(model: pm.Model, parts: LatentGaussianModel) -> Any:
    latents = set(parts.latent_vector.values)
    variables = [v for v in (*model.basic_RVs, *model.potentials) if v not in parts.latent_vector.variables]
    terms = model.logp(vars=variables, sum=False, jacobian=False)
    return pt.add(*[term.sum() for term in terms if not latents & set(ancestors([term]))], 0.0)


def _natural_point(
    model: pm.Model, parts: LatentGaussianModel, theta: np.ndarray, f: np.ndarray
) -> dict[str, np.ndarray]:
    values = parts.unravel(theta) | parts.unravel_latent(f, theta)
    variables = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    outputs = model.compile_fn(variables, inputs=model.value_vars)(values)
    return {variable.name: value for variable, value in zip(variables, outputs, strict=True)}
