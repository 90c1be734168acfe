"""Compile graphs of an observed variable as functions of the latent values at new points, theta and covariates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_pytensor
from pytensor.compile import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.rewriting import rewrite
from pmgp.interface.prediction.covariates import as_data
from pmgp.interface.prediction.latent_rows import LatentRows
from pmgp.interface.prediction.new_points import NewPoints
from pmgp.interface.prediction.rules import NotPointwiseError

# Without machine code: a few passes over arrays are not worth seconds of compilation.
QUICKLY = "FAST_COMPILE"


@dataclass
class PointModel:
    """The likelihood of a model at new points.

    `inputs` are variables from which the covariance of f is built, `at` has other data at the new points, by name, and
    `theta` the other necessary free variables.
    """

    model: pm.Model
    rows: LatentRows
    inputs: list[Any]
    Xnew: np.ndarray
    at: dict[str, np.ndarray]
    theta: list[TensorVariable]
    data: dict[Any, str] = field(init=False)

    def __post_init__(self) -> None:
        self.data = {variable: str(variable.name) for variable in self.model.data_vars}

    def new_points(self, observed: TensorVariable) -> NewPoints:
        """Return a fresh builder of graphs for an observed variable."""
        leaves = [variable for variable in self.model.basic_RVs if variable is not observed]
        return NewPoints(self.rows.variables, self.rows.size, leaves, self.data)

    def function(
        self, observed: TensorVariable, variable: TensorVariable, core: int = 0, random_seed: Any = None
    ) -> PointFunction:
        """Compile a graph of an observed variable; its last `core` axes are kept, the others run over observations."""
        graph, output = self._along_points(observed, variable, core)
        covariates = [self._covariate(graph, name) for name in graph.covariates]
        output, values = self._given(output, set(self.at) - set(graph.covariates))
        inputs = [*graph.points.values(), *graph.covariates.values(), *values]
        compiled = _compile(inputs, output, random_seed)
        return PointFunction(compiled, self.rows, covariates, list(graph.axes.values()))

    def constant(self, variable: TensorVariable) -> Callable[..., np.ndarray]:
        """Compile a graph that does not depend on observations as a function of theta."""
        output, values = self._given(variable, set(self.at))
        return _compile(values, output, None)

    def _given(self, variable: TensorVariable, names: set[str]) -> tuple[TensorVariable, list[TensorVariable]]:
        """Return the graph with the named data replaced, and the values of theta on which it depends."""
        values = [rv.type() for rv in self.theta]
        replacements: dict[Any, Any] = dict(zip(self.theta, values, strict=True))
        # Only lengths of f are left.
        for f, shape in zip(self.rows.variables, self.rows.shapes, strict=True):
            replacements[f] = pt.as_tensor(np.zeros(shape))
        left = set(ancestors([variable]))
        replacements |= {rv: self.model.rvs_to_values[rv] for rv in self.model.observed_RVs if rv in left}
        replacements |= {v: self._fixed(v) for v, name in self.data.items() if name in names and v in left}
        return clone_replace([variable], replacements, rebuild_strict=False)[0], values

    def _along_points(
        self, observed: TensorVariable, variable: TensorVariable, core: int
    ) -> tuple[NewPoints, TensorVariable]:
        """Return the graph with new points along its first axis."""
        errors = []
        for axis in range(variable.ndim - core):
            graph = self.new_points(observed)
            try:
                output = graph(variable, axis)
            except NotPointwiseError as error:
                errors.append(error)
                continue
            others = [i for i in range(variable.ndim - core) if i != axis]
            if not all(variable.type.broadcastable[i] for i in others):
                raise NotPointwiseError(
                    f"there are several observations for each element of {self.rows.name}, in an array: give each "
                    "column an observed variable of its own"
                )
            return graph, output.dimshuffle(axis, *range(variable.ndim - core, variable.ndim))
        if errors:
            raise errors[0]
        raise NotPointwiseError(
            f"it is a single observation, of a particular element of {self.rows.name} or of several"
        )

    def _covariate(self, graph: NewPoints, name: str) -> np.ndarray:
        """Return the values at the new points of data that have one for each observation."""
        variable, axis = self.model[name], graph.axes[name]
        if variable in self.inputs:
            if axis != 0 or graph.levels[name] not in graph.latent_levels:
                raise NotPointwiseError(f"the inputs {name!r} are used for observations in another order")
            return as_data(
                f"Xnew, used for {name!r} in the likelihood,",
                self.Xnew if variable.ndim == 2 else self.Xnew[:, 0],
                variable.type.dtype,
            )
        if name not in self.at:
            raise NotPointwiseError(
                f"{name!r} has a value for each observation: pass its values at the new points, at={{{name!r}: ...}}"
            )
        shape = list(variable.get_value(borrow=True).shape)
        shape[axis] = len(self.Xnew)
        return _fitted(name, self.at[name], tuple(shape))

    def _fixed(self, variable: SharedVariable) -> TensorVariable:
        """Return data that are the same for all observations, with the given value."""
        name = self.data[variable]
        return pt.as_tensor(_fitted(name, self.at[name], variable.get_value(borrow=True).shape))


def _fitted(name: str, value: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if value.ndim and value.shape != shape:
        raise ValueError(f"at[{name!r}] has shape {value.shape}, but {shape} or a single number is needed")
    return np.array(np.broadcast_to(value, shape))


def _compile(inputs: list[TensorVariable], output: TensorVariable, random_seed: Any) -> Callable[..., np.ndarray]:
    if random_seed is None:
        [output] = rewrite([output], ("canonicalize", "stabilize"))
    return compile_pytensor(inputs, output, mode=QUICKLY, on_unused_input="ignore", random_seed=random_seed)


class PointFunction:
    """A compiled graph of latent values at new points.

    The covariates are values at all new points, along an axis of each.
    """

    def __init__(
        self, function: Callable[..., np.ndarray], rows: LatentRows, covariates: list[np.ndarray], axes: list[int]
    ) -> None:
        self._function = function
        self._rows = rows
        self._covariates = list(zip(covariates, axes, strict=True))
        self._tiled: tuple[Any, list[np.ndarray]] = (None, [])

    def __call__(self, latent: np.ndarray, theta: list[np.ndarray], where: slice) -> np.ndarray:
        """Return the values at a slice of the new points, (nodes, m, ...), for `latent` of shape (C, nodes, m)."""
        number, *shape = latent.shape
        values = self._rows.split(latent.reshape(number, -1))
        try:
            result = self._function(*values, *self._at(shape[0], where), *theta)
        except IndexError as error:
            raise ValueError(f"at has an index that is out of range: {str(error).splitlines()[0]}") from error
        return np.broadcast_to(result, (latent[0].size, *result.shape[1:])).reshape(*shape, *result.shape[1:])

    def _at(self, repeats: int, where: slice) -> list[np.ndarray]:
        key = (repeats, where.start, where.stop)
        if self._tiled[0] != key:
            parts = [
                (values.take(range(*where.indices(values.shape[axis])), axis), axis)
                for values, axis in self._covariates
            ]
            self._tiled = (key, [np.concatenate([part] * repeats, axis) for part, axis in parts])
        return self._tiled[1]
