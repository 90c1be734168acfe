"""Maximization of the approximate marginal likelihood over hyper-parameters, with or without their prior."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.util import get_default_varnames
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable
from scipy.optimize import OptimizeResult, minimize

from pmgp.core import approximations
from pmgp.core.adaptation.units import units
from pmgp.core.approximations import Differentiable
from pmgp.core.gaussians import Posterior
from pmgp.core.iterative.settings import Iterative, solver_of
from pmgp.core.marginal.evidence_gradient import evidence_gradient
from pmgp.core.numerics.threads import suitable_threads, threads_limited
from pmgp.core.registry import resolve
from pmgp.interface.climbing import LARGEST_FACTORIZED, density_of
from pmgp.interface.graphs.compilation import INTERPRETED, CompiledWhenCalled
from pmgp.interface.importance.targets import MarginalTarget
from pmgp.interface.model.context import current_model
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.missing import imputed
from pmgp.interface.model.observed_normal import gaussian_observations, observed_values
from pmgp.interface.model.points import value_point
from pmgp.interface.model.taking_apart import take_apart
from pmgp.interface.observed_maximum import by_factorization, by_solutions, log_prior_of
from pmgp.interface.steps.starts import unusable_start

# Stands in for the log-density where there is none, so that the line search turns back.
VERY_LOW = -1e25
# Draws of f in a trace come in pairs about their mean, so that averages of what is linear in f have no error. There are
# fewer pairs of a long f, so that it takes at most this many elements, 40 MB, up to a smallest number.
PAIRS, FEWEST_PAIRS, ELEMENTS, SEED = 500, 10, 5_000_000, 2013


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
    approximation : Posterior or None
        q(f) at the maximum; ``approximation.sample(rng, size)`` draws from it. If there are several latent vectors,
        they follow one another in f. It is None for multivariate normal observations, which need no approximation.
    converged : bool
    message : str
        Message of the optimizer; for an iterative solver, how near the maximum is.
    trace : DataTree
        For :func:`pmgp.predict`: a chain of 1,000 draws of f from q with the hyper-parameters of the point, or fewer
        of more than 5,000 latent values. For multivariate normal observations, the point is the only draw.
    """

    point: dict[str, np.ndarray]
    log_evidence: float
    log_prior: float
    approximation: Posterior | None
    converged: bool
    message: str
    trace: xr.DataTree

    def __repr__(self) -> str:
        """Return the figures, and the point with arrays shown by their shapes."""
        return (
            f"Maximum(log evidence {self.log_evidence:.2f}, log prior {self.log_prior:.2f}, "
            f"{'converged' if self.converged else 'not converged'}, at {_in_words(self.point)})"
        )


def _in_words(point: dict[str, np.ndarray]) -> str:
    """Return the numbers of a point, followed by the shapes of its arrays, as text."""
    parts = sorted(point.items(), key=lambda item: item[1].ndim)
    return ", ".join(f"{k} of shape {v.shape}" if v.ndim else f"{k} = {v:.3g}" for k, v in parts)


def find_map(
    model: pm.Model | None = None,
    *,
    approximation: Differentiable | str = "ep",
    prior: bool = True,
    start: dict[str, Any] | None = None,
    latent: Any = None,
    solver: Iterative | str = "auto",
    max_iterations: int = 200,
    compile_kwargs: dict[str, Any] | None = None,
    progressbar: bool = False,
) -> Maximum:
    """Maximize log p~(y|theta) + log p(theta), with f integrated out approximately.

    As in `pymc.find_MAP`, the prior density is that on theta's own scale: the optimizer works on the unconstrained
    scale, but the Jacobian of the transformation is left out. Unlike `pymc.find_MAP`, this function integrates f out,
    so the maximum is not at a degenerate theta. The result is where one search ends; :func:`pmgp.importance` looks for
    other maxima.

    For multivariate normal observations, such as those of `pymc.gp.Marginal`, log p(y|theta) is exact for up to 5,000
    of them. With more, gradients come from iterative solutions of linear systems, without an n by n matrix. The message
    then says how much their noise moves the maximum. Ctrl-C ends such a search with the best point so far; given as
    `start`, it continues the search.

    Parameters
    ----------
    model : pymc.Model, optional
        The model on the context stack by default.
    approximation : "ep", "laplace", ExpectationPropagation or Laplace
        The names select tight tolerances, which the gradient needs. With a softmax of four or more classes the
        gradient of "ep" has an error of a few percent, so the result is only near the maximum; the gradient of
        "laplace" is exact. Both gradients are rough if there are several latent vectors and the likelihood is not
        log-concave.
    prior : bool
        Whether to include the prior. If False, theta maximizes the marginal likelihood alone ("type II").
    start : dict, optional
        Hyper-parameter values to start from, as in :func:`pmgp.marginal.log_likelihood`.
    latent : variable or str, or a sequence of them, optional
        The variables that form f, if other multivariate normal variables are hyper-parameters.
    solver : {"auto", "cholesky", "iterative"} or pmgp.marginal.Iterative
        For multivariate normal observations only: whether gradients use a Cholesky factorization, or are estimated from
        iterative solutions.
    max_iterations : int
        Largest number of iterations of L-BFGS, or of BFGS along estimated gradients.
    compile_kwargs : dict, optional
        Passed to PyTensor, as in `pymc.sample`.
    progressbar : bool
        Whether to show the number of gradients, and the residual of each solution; with an iterative solver only.

    Returns
    -------
    Maximum

    Raises
    ------
    ModelError
        If the model is not of the form that `PseudoMarginal` needs, or if multivariate normal observations are missing
        or differ in number from the rows of X.
    ValueError
        If the approximation is unknown, or the objective is not finite at the start.
    NotConvergedError
        If an iterative solver reaches its cap at the start or the end. The message gives the residual and advice.
    MemoryError
        If an iterative solver needs more than its `memory`.

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
    model = current_model(model)
    observed = gaussian_observations(model) if latent is None else None
    if observed is not None:
        return _of_observations(model, observed, prior, start, solver, max_iterations, compile_kwargs, progressbar)
    if solver != "auto":
        raise ValueError(f"solver={solver!r} is for multivariate normal observations; this model has latent values")
    method = resolve(approximation, approximations.TIGHT, Differentiable, "approximation")
    values = value_point(model, start)
    parts = take_apart(model, latent, values, compile_kwargs)
    parts.checks.refuse_discrete()
    objective = Objective(model, parts, method, prior)
    with threads_limited(suitable_threads(parts.latent_vector.sites(values))):
        found = _maximize(objective, parts.ravel(values), max_iterations)
        q = objective.fit(found.x)
    if q is None:
        raise ValueError(unusable_start(parts, found.x))
    point = _natural_point(model, parts, found.x, q.mean)
    log_prior = objective.log_prior(found.x)[0]
    said = str(found.message)
    trace = _trace(model, point, [parts.unravel_latent(f, found.x) for f in _pairs(q)])
    return Maximum(point, q.log_evidence, log_prior, q, bool(found.success), said, trace)


def _pairs(q: Posterior) -> np.ndarray:
    """Draw from q, each draw with its reflection in the mean: (draws, n)."""
    number = max(FEWEST_PAIRS, min(PAIRS, ELEMENTS // (2 * q.mean.size)))
    deviations = (q.factorized() or q).sample_deviations(np.random.default_rng(SEED), number)
    return q.mean + np.concatenate([deviations, -deviations])


def _of_observations(
    model: pm.Model,
    observed: TensorVariable,
    prior: bool,
    start: dict[str, Any] | None,
    solver: Iterative | str,
    max_iterations: int,
    compile_kwargs: dict[str, Any] | None,
    progressbar: bool,
) -> Maximum:
    """Maximize for multivariate normal observations."""
    values = value_point(model, start)
    size = len(observed_values(model, observed))
    chosen = solver_of(solver, size, LARGEST_FACTORIZED)
    source: Any
    if chosen is None:
        source = MarginalTarget(model, observed, compile_kwargs)
    else:
        source = density_of(model, size, chosen, compile_kwargs)
    theta, log_prior = source.theta, log_prior_of(model, observed, source.theta)
    used = log_prior if prior else lambda at: (0.0, np.zeros_like(at))
    with threads_limited(suitable_threads(size)):
        if chosen is None:
            found = by_factorization(source, used, theta.ravel(values), max_iterations)
        else:
            beginning = None if start is None else theta.ravel(values)
            found = by_solutions(source, used, beginning, max_iterations, progressbar)
    variables = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    natural = model.compile_fn(variables, inputs=model.value_vars, mode=INTERPRETED)
    outputs = natural(values | theta.unravel(found.theta))
    point = {variable.name: value for variable, value in zip(variables, outputs, strict=True)}
    at = log_prior(found.theta)[0]
    return Maximum(point, found.log_evidence, at, None, found.converged, found.message, _trace(model, point, [{}]))


def _trace(model: pm.Model, point: dict[str, np.ndarray], latents: list[dict[str, np.ndarray]]) -> xr.DataTree:
    """Return a chain of free variables at the point, with draws of the latent ones in their places."""
    import arviz_base

    free = {rv.name for rv in model.free_RVs} & set(point)
    dims = {name: list(model.named_vars_to_dims[name]) for name in free if name in model.named_vars_to_dims}
    coords = {name: list(labels) for name, labels in model.coords.items() if labels is not None}
    draws = {name: np.array([f.get(name, point[name]) for f in latents])[None] for name in sorted(free)}
    return arviz_base.from_dict({"posterior": draws}, dims=dims, coords=coords)


def _maximize(objective: Objective, theta: np.ndarray, max_iterations: int) -> OptimizeResult:
    if objective(theta)[0] <= VERY_LOW:
        raise ValueError(unusable_start(objective.parts, theta))
    scale = units(lambda theta: objective.log_prior(theta)[0], lambda theta: objective(theta)[0], theta)

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective.negative(scale * x)
        return value, scale * gradient

    found = minimize(negative, theta / scale, jac=True, method="L-BFGS-B", options={"maxiter": max_iterations})
    found.x = scale * found.x
    return found


class Objective:
    """The function log p~(y|theta), plus log p(theta) if `prior` is true, with its gradient in theta."""

    def __init__(self, model: pm.Model, parts: LatentGaussianModel, approximation: Differentiable, prior: bool) -> None:
        self.parts = parts
        self.approximation = approximation
        self.prior = prior
        graph = _log_prior_without_jacobian(model, parts)
        # An optimizer's hundred evaluations take ten milliseconds, and compilation takes seconds.
        self._log_prior = CompiledWhenCalled(partial(parts.theta.compile_gradient, [], graph, interpreted=True))

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and the gradient (dimension,); a very low value and zeros where they do not exist."""
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
        """Return log p(theta) without the Jacobian, and its gradient on the unconstrained scale."""
        value, gradient = self._log_prior(theta)
        return float(value), gradient

    def fit(self, theta: np.ndarray) -> Posterior | None:
        """Fit q from a start that does not depend on the optimizer's path; return None if none can be trusted."""
        q = self.approximation.fit(self.parts.prior(theta), self.parts.likelihood(theta))
        return q if q is None or q.resolved else None

    def evidence_gradient(self, theta: np.ndarray, q: Posterior) -> np.ndarray | None:
        """Return the gradient of the log-evidence, or None where K is indefinite."""
        return evidence_gradient(self.parts, self.approximation, theta, q, self.parts.likelihood(theta))


def _log_prior_without_jacobian(model: pm.Model, parts: LatentGaussianModel) -> Any:
    latents = set(parts.latent_vector.values)
    variables = [v for v in (*model.basic_RVs, *model.potentials) if v not in parts.latent_vector.variables]
    terms = model.logp(vars=variables, sum=False, jacobian=False)
    return pt.add(*[term.sum() for term in terms if not latents & set(ancestors([term]))], 0.0)


def _natural_point(
    model: pm.Model, parts: LatentGaussianModel, theta: np.ndarray, f: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the variables at theta and f, without missing observations and what depends on them."""
    values = parts.unravel(theta) | parts.unravel_latent(f, theta)
    missing = {model.rvs_to_values[rv] for rv in imputed(model, parts.latent_vector.variables)}
    variables = get_default_varnames(model.unobserved_value_vars, include_transformed=False)
    variables = [variable for variable in variables if not missing & set(ancestors([variable]))]
    inputs = [value for value in model.value_vars if value not in missing]
    outputs = model.compile_fn(variables, inputs=inputs, mode=INTERPRETED)(values)
    return {variable.name: value for variable, value in zip(variables, outputs, strict=True)}
