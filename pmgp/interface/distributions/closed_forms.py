"""The core likelihoods that belong to distributions according to their records.

If the first parameter of an observed variable is the latent vector itself, or one latent vector for each class, the
core's closed forms replace the derivatives of its graph. The other parameters may be constants, data, or functions of
theta.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.likelihoods import Likelihood
from pmgp.core.likelihoods.impossible import Impossible
from pmgp.interface.distributions.base import value_of
from pmgp.interface.distributions.records import LikelihoodRecord, record_of
from pmgp.interface.graphs.theta_function import ThetaFunction


class ClosedForm:
    """The core likelihood of an observed variable, as a function of theta.

    `constructor` takes the observations and the parameters other than f, which are in terms of theta's value variables;
    `parameters_at` gives them as a function of theta, if any depends on it.
    """

    def __init__(
        self,
        constructor: Callable[..., Likelihood],
        observed: TensorVariable,
        parameters: list[TensorVariable],
        parameters_at: ThetaFunction | None,
    ) -> None:
        self.constructor = constructor
        self.observed = observed
        self.parameters = parameters
        self.parameters_at = parameters_at

    def refresh(self, theta: np.ndarray) -> None:
        """Read the data again, and check them and the parameters at a theta that must be possible."""
        self._observations = value_of(self.observed)
        if self.parameters_at is not None:
            self.parameters_at.refresh_data()
            self.constructor(self._observations, *self.parameters_at(theta))
        else:
            self._fixed = self.constructor(self._observations, *map(value_of, self.parameters))

    def __call__(self, theta: np.ndarray) -> Likelihood:
        """Return p(y|f, theta), which is zero for every f if the parameters are outside their domain."""
        if self.parameters_at is None:
            return self._fixed
        try:
            return self.constructor(self._observations, *self.parameters_at(theta))
        except ValueError as error:
            return Impossible(str(error))


def find_closed_form(
    model: pm.Model,
    latents: list[TensorVariable],
    variables: list[TensorVariable],
    function_of_theta: Callable[[list[TensorVariable]], ThetaFunction],
    point: dict[str, np.ndarray],
) -> ClosedForm | None:
    """Return the closed form of p(y|f, theta), or None if the core has none."""
    if len(variables) != 1 or variables[0] not in model.observed_RVs:
        return None
    node = variables[0].owner
    record = record_of(variables[0])
    if record.constructor is None:
        return None
    first, *others = node.op.dist_params(node)
    constructor = _constructor(model, record, first, latents, point)
    parameters = model.replace_rvs_by_values(others)
    needed = set(ancestors(parameters))
    # Several observations of one latent value are also left to the graph.
    if constructor is None or variables[0].ndim != 1 or needed & {model.rvs_to_values[f] for f in latents}:
        return None
    depends = any(model.rvs_to_values[rv] in needed for rv in model.free_RVs)
    observed = model.rvs_to_values[variables[0]]
    return ClosedForm(constructor, observed, parameters, function_of_theta(parameters) if depends else None)


def _constructor(
    model: pm.Model,
    record: LikelihoodRecord,
    first: TensorVariable,
    latents: list[TensorVariable],
    point: dict[str, np.ndarray],
) -> Callable[..., Likelihood] | None:
    """Return the constructor of observations and all parameters but the first, if the first is f itself."""
    assert record.constructor is not None
    if not record.of_classes:
        return record.constructor if latents == [first] and first.ndim == 1 else None
    order = class_order(model, first, latents, point)
    return None if order is None else partial(record.constructor, classes=len(order), order=order)


def class_order(
    model: pm.Model, parameter: TensorVariable, latents: list[TensorVariable], point: dict[str, np.ndarray]
) -> np.ndarray | None:
    """Return the index of the latent vector in each column of a parameter (n, C), or None for other columns.

    The order follows from the parameter's values at two values of the latent variables.
    """
    if set(ancestors([parameter], blockers=latents)) & {*model.free_RVs, *model.data_vars} - set(latents):
        return None
    shapes = [np.shape(point[model.rvs_to_values[latent].name]) for latent in latents]
    sizes = [int(np.prod(shape)) for shape in shapes]
    ends, n = np.cumsum(sizes), shapes[0][-1]
    found = []
    for scale in (1.0, -0.7):
        values = np.split(scale * np.arange(ends[-1]), ends[:-1])
        blocks = [pt.constant(x.reshape(shape)) for x, shape in zip(values, shapes, strict=True)]
        replace = dict(zip(latents, blocks, strict=True))
        found.append(clone_replace([parameter], replace, rebuild_strict=False)[0].eval(mode="FAST_COMPILE"))
    first, second = found
    if first.shape != (n, ends[-1] // n) or not np.allclose(second, -0.7 * first):
        return None
    order = np.round(first[0] / n).astype(int)
    expected = np.arange(n)[:, None] + n * order
    return order if np.array_equal(first, expected) and set(order) == set(range(len(order))) else None
