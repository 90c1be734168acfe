"""Expected observations for normal latent values: means, and probabilities of classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pymc.exceptions import UndefinedMomentException
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.quadrature import NARROWEST, STEP, TAIL, WIDEST
from pmgp.interface.distributions.means import conditional_mean
from pmgp.interface.distributions.records import Expected, record_of
from pmgp.interface.distributions.robust_max import RobustMaxRV
from pmgp.interface.model.labels import category_names
from pmgp.interface.sparse.draws import at_draws
from pmgp.interface.sparse.likelihood import LatentLikelihood
from pmgp.interface.sparse.marginals import Marginals

LATENT = ("latent_mean", "square", "latent_variance")


class Response(NamedTuple):
    """An expected observation.

    `graphs` are needed at a draw of the model's random variables. `value` takes their values, and returns the
    expectation, of shape (n,), or (n, categories).
    """

    name: str
    graphs: list[TensorVariable]
    value: Callable[..., np.ndarray]


class Expectations(NamedTuple):
    """Quantities that are averaged over draws: moments of f, and expected observations.

    `whitened` are the values at the inducing inputs, with a row for each output if there are several, and `own` is the
    observed variable whose parameters are those of the new inputs.
    """

    moments: Marginals
    observations: dict[str, tuple[LatentLikelihood, list[TensorVariable]]]
    whitened: TensorVariable
    outputs: int
    own: str | None

    def averages(
        self, draws: list[dict[str, np.ndarray]], model: pm.Model, density: TensorVariable | None
    ) -> xr.Dataset:
        """Average over draws of the model's free variables; average the exponentials of log-densities `density`.

        A warning says why an observed variable has no known expectation at new inputs.
        """
        responses = self._responses()
        graphs = [*self.moments, *[graph for response in responses for graph in response.graphs]]
        graphs += [] if density is None else [density]
        sums: dict[str, Any] = dict.fromkeys([*LATENT, *[response.name for response in responses]], 0.0)
        log_sum: Any = -np.inf
        for mean, variance, *values in at_draws(draws, model, graphs):
            for name, value in zip(LATENT, (mean, np.square(mean), variance), strict=True):
                sums[name] = sums[name] + value
            rest = iter(values)
            for response in responses:
                sums[response.name] = sums[response.name] + response.value(*islice(rest, len(response.graphs)))
            log_sum = np.logaddexp(log_sum, next(rest, -np.inf))
        averages = {name: np.asarray(total) / len(draws) for name, total in sums.items()}
        averages["latent_variance"] += np.maximum(averages.pop("square") - averages["latent_mean"] ** 2, 0.0)
        if density is not None:
            averages["log_density"] = log_sum - np.log(len(draws))
        return self._dataset(model, averages).assign_attrs(draws=len(draws))

    def _dataset(self, model: pm.Model, averages: dict[str, np.ndarray]) -> xr.Dataset:
        """Name the dimensions, and the categories by the model's coordinates."""
        variables: dict[str, Any] = {}
        coords: dict[str, Any] = {"point": np.arange(averages["latent_mean"].shape[-1])}
        for name, values in averages.items():
            if name.endswith("probabilities"):
                category = name.replace("probabilities", "category")
                variables[name] = (("point", category), values)
                coords[category] = category_names(model, [self.whitened], values.shape[1])
            else:
                variables[name] = (("output", "point")[-values.ndim :], values)
        return xr.Dataset(variables, coords=coords)

    def _responses(self) -> list[Response]:
        responses: list[Response] = []
        reasons = []
        for name, (likelihood, [_, _, *others]) in self.observations.items():
            prefix = f"{name}_" if len(self.observations) > 1 else ""
            try:
                check_parameters(likelihood, self.moments, others, of_observations=name != self.own)
                found = _responses_of(likelihood, self.moments, others, self.outputs)
                responses += [response._replace(name=prefix + response.name) for response in found]
            except ValueError as error:
                reasons.append(f"of {name!r}, {error}")
        if reasons:
            warnings.warn(
                f"Expected observations cannot be given at the new inputs: {'; '.join(reasons)}", stacklevel=5
            )
        return responses


def _responses_of(
    likelihood: LatentLikelihood, moments: Marginals, others: list[TensorVariable], outputs: int
) -> list[Response]:
    """Return the expected observations for latent values with given moments.

    If they are not known, a ValueError says why.
    """
    f = _symbol(moments)
    rv = likelihood.dist(f, *others)
    if isinstance(rv.owner.op, RobustMaxRV):
        return [_of_classes(likelihood, moments, others, outputs)]
    return [_response(name, expected, rv, f, moments) for name, expected in record_of(rv).expected.items()]


def _symbol(moments: Marginals) -> TensorVariable:
    """Return f with an unknown length, so that parameters of other lengths are found without an error."""
    return pt.tensor("f", dtype=moments.mean.dtype, shape=(None,) * moments.mean.ndim)


def check_parameters(
    likelihood: LatentLikelihood, moments: Marginals, others: list[TensorVariable], of_observations: bool
) -> None:
    """Refuse arrays in `dist` with a value for each observation, and parameters if they are those `of_observations`."""
    symbols = [other.type() for other in others]
    rv = likelihood.dist(_symbol(moments), *symbols)
    for parameter, axes in zip(rv.owner.op.dist_params(rv.owner), rv.owner.op.ndims_params, strict=True):
        # A parameter that is a vector for each observation, such as probabilities of classes, may come from any array.
        long = [v for v in ancestors([parameter]) if v.owner is None and not axes and not all(v.type.broadcastable)]
        if of_observations and set(long) & set(symbols):
            raise ValueError(
                "its likelihood has a parameter with a value for each observation; gp.predict takes those of the new "
                "inputs as parameters"
            )
        if any(isinstance(variable, Constant | SharedVariable) for variable in long):
            raise ValueError(
                "its likelihood uses an array that it is not given: make it a parameter, as in gp.observe('y', f, "
                "exposure, dist=lambda f, exposure: ..., observed=y); gp.predict takes its values at the new inputs as "
                "parameters"
            )


def _response(name: str, expected: Expected, rv: TensorVariable, f: TensorVariable, moments: Marginals) -> Response:
    first, *rest = rv.owner.op.dist_params(rv.owner)
    if expected.under_normal is not None and first is f and f not in set(ancestors(rest)):
        return _in_closed_form(name, expected.under_normal, rv, moments)
    nodes, weights = _rule(moments.variance)
    given_f = expected.given_f(first, *rest) if expected.given_f is not None else _mean(rv)
    points = moments.mean + pt.sqrt(moments.variance) * nodes.reshape((-1, *([1] * f.ndim)))
    values = vectorize_graph(given_f, {f: points})
    # Rounding must not leave a probability above one.
    average = pt.clip(pt.tensordot(weights, values, axes=1), values.min(axis=0), values.max(axis=0))
    return Response(name, [average], np.asarray)


def _rule(variance: TensorVariable) -> tuple[TensorVariable, TensorVariable]:
    """Return the equidistant rule for predictions of other models, with as many nodes as the largest variance needs."""
    deviation = pt.clip(pt.sqrt(variance.max()), NARROWEST, WIDEST)
    reach = TAIL + deviation
    each_side = pt.ceil(reach * deviation / STEP)
    nodes = pt.arange(-each_side, each_side + 1.0) * (reach / each_side)
    return nodes, pt.special.softmax(-0.5 * pt.square(nodes), axis=0)


def _in_closed_form(
    name: str, under_normal: Callable[..., np.ndarray], rv: TensorVariable, moments: Marginals
) -> Response:
    op = rv.owner.op
    parameters = list(zip(op.dist_params(rv.owner), op.ndims_params, strict=True))[1:]

    def value(mean: np.ndarray, variance: np.ndarray, *values: np.ndarray) -> np.ndarray:
        scalars = [
            given if axes else np.broadcast_to(given, mean.shape)
            for given, (_, axes) in zip(values, parameters, strict=True)
        ]
        return under_normal(mean, variance, *scalars)

    return Response(name, [*moments, *[parameter for parameter, _ in parameters]], value)


def _of_classes(
    likelihood: LatentLikelihood, moments: Marginals, others: list[TensorVariable], outputs: int
) -> Response:
    """Return the probabilities of all classes."""
    number = moments.mean.shape[1]
    logs = [likelihood.log_expected(pt.full((number,), label), *moments, *others) for label in range(outputs)]
    return Response("probabilities", [pt.exp(pt.stack(logs, axis=-1))], np.asarray)


def _mean(rv: TensorVariable) -> TensorVariable:
    try:
        return conditional_mean(rv)
    except (UndefinedMomentException, NotImplementedError) as error:
        raise ValueError(f"its mean is not known: {error}") from error
