"""Predictions at new inputs, averaged over posterior draws of theta and f (equation 20 of the pseudo-marginal article).

The covariance between old and new inputs comes from the model's own graph: the inputs X that the covariance of f was
built from are replaced by X stacked on the new ones. So every covariance and mean function of `pymc.gp` works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.distributions.moments import mean as conditional_mean
from pymc.pytensorf import compile as compile_pytensor
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc
from pytensor.tensor.variable import TensorVariable
from rich.progress import track

from pmgp import likelihoods, linalg
from pmgp.distributions.bernoulli import BernoulliLogitRV, BernoulliProbitRV
from pmgp.latent import DensePrior
from pmgp.model import ModelError, find_latent
from pmgp.quadrature import normal_expectation

__all__ = ["predict"]

Response = Callable[[np.ndarray, np.ndarray, list[np.ndarray]], np.ndarray]

CLOSED_FORMS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    BernoulliProbitRV.name: likelihoods.BernoulliProbit.probability,
    BernoulliLogitRV.name: likelihoods.BernoulliLogit.probability,
}
BINARY = {*CLOSED_FORMS, "bernoulli"}


def predict(
    idata: Any,
    Xnew: Any,
    *,
    model: pm.Model | None = None,
    latent: Any = None,
    draws: int | None = 1000,
    block_size: int = 512,
    progressbar: bool = True,
) -> xr.Dataset:
    """Predictive distribution at new inputs, averaged over the posterior.

    Parameters
    ----------
    idata : xarray.DataTree
        What `pymc.sample` returned, with f and the hyper-parameters in its posterior group.
    Xnew : (m, d) array
        New inputs, on the scale of the inputs that the model was built with.
    model : pymc.Model, optional
        The model that was sampled; taken from the context if it is not given.
    latent : variable or str, optional
        Which variable is f, if the model has several multivariate normal ones.
    draws : int or None
        At most this many posterior draws are used, evenly spaced over all chains; None for all.
    block_size : int
        New inputs handled at a time; memory grows with the square of n plus this number.
    progressbar : bool

    Returns
    -------
    xarray.Dataset
        Over the dimension ``point``: ``probability`` of the label 1 for a binary likelihood (in closed form for the
        probit link, by Gauss-Hermite quadrature else), or the expected observation ``mean`` for any other one; and
        ``latent_mean`` and ``latent_variance`` of f at the new inputs.

    Raises
    ------
    ValueError
        If Xnew has no rows, the wrong number of columns, or values that are not finite.
    ModelError
        If the model has no latent process whose inputs can be found.
    """
    model = pm.modelcontext(model)
    f = find_latent(model, latent)
    observed = _observed(model, f)
    theta = [rv for rv in model.free_RVs if rv is not f and rv in set(ancestors([observed]))]
    predictive = _JointMoments(f, theta)
    Xnew = _check_inputs(Xnew, predictive.X)
    name, response = _response(observed, f, theta)
    points = _posterior_points(idata, [f, *theta], draws)
    blocks = [Xnew[start : start + block_size] for start in range(0, len(Xnew), block_size)]
    sums = [np.zeros((4, len(block))) for block in blocks]
    for latent_values, *values in track(points, "Predicting", disable=not progressbar):
        for block, total in zip(blocks, sums, strict=True):
            mean, variance = predictive.conditional(block, latent_values, values)
            total += [mean, mean**2, variance, response(mean, variance, values)]
    mean, square, variance, expected = np.concatenate(sums, axis=1) / len(points)
    columns = {
        name: expected,
        "latent_mean": mean,
        # The law of total variance: within draws of (theta, f), and between them.
        "latent_variance": variance + np.maximum(square - mean**2, 0.0),
    }
    return xr.Dataset(
        {key: ("point", value) for key, value in columns.items()},
        coords={"point": np.arange(len(Xnew))},
        attrs={"draws": len(points)},
    )


class _JointMoments:
    """Mean and covariance of f at old and new inputs together, as a compiled function of the inputs and theta."""

    def __init__(self, f: TensorVariable, theta: list[TensorVariable]) -> None:
        moments = list(f.owner.op.dist_params(f.owner))
        inputs = _find_inputs(moments, f, theta)
        self.X = _value(inputs[0])
        joint = pt.matrix("X_joint", dtype="float64")
        try:
            replacements = dict.fromkeys(inputs, joint)
            replacements |= dict.fromkeys(_fixed_lengths(moments, len(self.X), theta), joint.shape[0])
            # Cloning copies random variables too, and the copies would be drawn from the prior: they are replaced.
            values = [rv.type() for rv in theta]
            replacements |= dict(zip(theta, values, strict=True))
            moments = clone_replace(moments, replacements, rebuild_strict=False)
            self._function = compile_pytensor([joint, *values], moments, on_unused_input="ignore")
        except (TypeError, ValueError, NotImplementedError) as error:
            raise ModelError(f"the covariance of {f.name!r} cannot be evaluated at new inputs: {error}") from error

    def conditional(self, Xnew: np.ndarray, f: np.ndarray, theta: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at the new inputs given f at the old ones: two arrays of shape (m,)."""
        n = len(self.X)
        try:
            mean, covariance = self._function(np.concatenate([self.X, Xnew]), *theta)
        except (AssertionError, ValueError) as error:
            raise ModelError(
                f"a part of the mean or the covariance is fixed to the {n} old inputs, as white noise on a plain array "
                "is: build the model with X=pm.Data('X', X)"
            ) from error
        prior = DensePrior(mean[:n], np.asfortranarray(covariance[:n, :n]))
        projected = linalg.triangular_solve(prior.factor, np.asfortranarray(covariance[:n, n:]))
        variance = np.diagonal(covariance)[n:] - np.einsum("ij,ij->j", projected, projected)
        return mean[n:] + projected.T @ prior.whiten(f), np.maximum(variance, 0.0)


def _fixed_lengths(moments: list[TensorVariable], n: int, theta: list[TensorVariable]) -> list[Constant]:
    """Lengths n that `pymc.gp` wrote into the graph as numbers, in constant means and white-noise covariances."""
    allocations = [v.owner for v in ancestors(moments, blockers=theta) if v.owner and isinstance(v.owner.op, Alloc)]
    lengths = [length for node in allocations for length in node.inputs[1:]]
    return [length for length in lengths if isinstance(length, Constant) and int(length.data) == n]


def _value(variable: Any) -> np.ndarray:
    return np.asarray(variable.get_value() if isinstance(variable, SharedVariable) else variable.data, dtype=float)


def _find_inputs(moments: list[TensorVariable], f: TensorVariable, theta: list[TensorVariable]) -> list[Any]:
    """The variables of the graph that hold the n x d inputs; the same matrix may occur several times."""
    n = int(f.type.shape[0] if f.type.shape[0] is not None else f.shape.eval()[0])
    found = [
        variable
        for variable in ancestors(moments, blockers=theta)
        if isinstance(variable, Constant | SharedVariable)
        and getattr(variable.type, "ndim", 0) == 2
        and _value(variable).shape[0] == n
        and _value(variable).shape != (n, n)
    ]
    if not found:
        raise ModelError(
            f"the inputs that the covariance of {f.name!r} was built from were not found in the model: "
            "build it with pm.gp.Latent(...).prior(..., X=X), X an array or a pm.Data of shape (n, d)"
        )
    first = _value(found[0])
    if any(not np.array_equal(first, _value(other)) for other in found[1:]):
        raise ModelError(
            f"the covariance of {f.name!r} is built from several different input matrices, as it is when active_dims "
            "select columns of a plain array: build the model with X=pm.Data('X', X)"
        )
    return found


def _check_inputs(Xnew: Any, X: np.ndarray) -> np.ndarray:
    Xnew = np.asarray(Xnew, dtype=float)
    if Xnew.ndim != 2:
        raise ValueError(f"Xnew must be a matrix of shape (m, {X.shape[1]}), not of shape {Xnew.shape}")
    if Xnew.shape[0] == 0:
        raise ValueError("Xnew has no rows: there is nothing to predict")
    if Xnew.shape[1] != X.shape[1]:
        raise ValueError(
            f"Xnew has {Xnew.shape[1]} columns, but the covariance uses {X.shape[1]}; "
            "if active_dims select columns of a plain array, build the model with X=pm.Data('X', X)"
        )
    if not np.isfinite(Xnew).all():
        row, column = np.argwhere(~np.isfinite(Xnew))[0]
        raise ValueError(f"Xnew has a value that is not finite: {Xnew[row, column]} in row {row}, column {column}")
    return Xnew


def _posterior_points(idata: Any, variables: list[TensorVariable], draws: int | None) -> list[list[np.ndarray]]:
    """Values of the variables, one list a draw, evenly spaced over all chains."""
    posterior = idata["posterior"]
    missing = [variable.name for variable in variables if variable.name not in posterior]
    if missing:
        raise ValueError(f"the posterior has no draws of {', '.join(missing)}; sample with all variables in the trace")
    stacked = [posterior[v.name].stack(sample=("chain", "draw")).transpose("sample", ...).to_numpy() for v in variables]
    total = len(stacked[0])
    number = total if draws is None else min(draws, total)
    if number < 1:
        raise ValueError(f"draws must be at least 1, not {draws}")
    chosen = np.linspace(0, total - 1, number).round().astype(int)
    return [[np.asarray(values[index], dtype=float) for values in stacked] for index in chosen]


def _observed(model: pm.Model, f: TensorVariable) -> TensorVariable:
    """The observed variable that depends on f."""
    observed = [rv for rv in model.observed_RVs if f in set(ancestors([rv]))]
    if len(observed) != 1:
        raise ModelError(f"predictions need one observed variable that depends on {f.name!r}, found {len(observed)}")
    return observed[0]


def _response(observed: TensorVariable, f: TensorVariable, theta: list[TensorVariable]) -> tuple[str, Response]:
    """Name and function of what is expected of an observation, for a latent value N(mean, variance)."""
    kind = observed.owner.op.name
    if kind in CLOSED_FORMS and observed.owner.op.dist_params(observed.owner)[0] is f:
        closed_form = CLOSED_FORMS[kind]
        return "probability", lambda mean, variance, _: closed_form(mean, variance)
    expectation = _compile_expectation(observed, f, theta)

    def by_quadrature(mean: np.ndarray, variance: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
        return normal_expectation(lambda points: expectation(points, values), mean, variance)

    return ("probability" if kind in BINARY else "mean"), by_quadrature


def _compile_expectation(
    observed: TensorVariable, f: TensorVariable, theta: list[TensorVariable]
) -> Callable[[np.ndarray, list[np.ndarray]], np.ndarray]:
    """E[y|f] as a function of latent values of any shape."""
    points = pt.vector("latent_points", dtype="float64")
    try:
        values = [rv.type() for rv in theta]
        replacements = {f: points, **dict(zip(theta, values, strict=True))}
        parameters = clone_replace(
            list(observed.owner.op.dist_params(observed.owner)), replacements, rebuild_strict=False
        )
        # Built anew, the variable takes its length from its parameters instead of from the data.
        build = getattr(observed.owner.op, "rv_op", observed.owner.op)
        expected = conditional_mean(build(*parameters))
        function = compile_pytensor([points, *values], expected, on_unused_input="ignore")
    except (NotImplementedError, TypeError, ValueError) as error:
        raise ModelError(f"the expectation of {observed.name!r} given f is not known: {error}") from error

    def evaluate(values: np.ndarray, theta_values: list[np.ndarray]) -> np.ndarray:
        try:
            return function(values.ravel(), *theta_values).reshape(values.shape)
        except (AssertionError, ValueError) as error:
            raise ModelError(
                f"{observed.name!r} has parameters of its own for each observation: its expectation at new inputs "
                "is not defined; use gp.conditional and pm.sample_posterior_predictive"
            ) from error

    return evaluate
