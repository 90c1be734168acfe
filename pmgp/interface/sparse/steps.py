"""The base of the step methods for `Sparse` models, which move all variables together and compile nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pymc.util import get_random_generator

from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import drawn_afterwards, inducing_processes
from pmgp.interface.model.latent_variable import names_of, on_inducing_inputs, refuse_children
from pmgp.interface.sparse.inputs import current_value
from pmgp.interface.sparse.observed import complete
from pmgp.interface.steps.chain_step import ChainStep

NOT_FINITE = "the log-density is not finite where the chain starts: give other initial values, or check the data"


class SparseStep(ChainStep):
    """A step method for all variables of a model, which must be continuous.

    Subclasses define `_function_of`. Their constructors call this one last, since it starts a state.
    """

    def __init__(
        self,
        vars: list[Any] | None,
        model: pm.Model | None,
        rng: Any,
        initial_point: dict[str, np.ndarray] | None,
        blocked: bool,
    ) -> None:
        model = current_model(model)
        self.vars = self._all_variables(vars, model)
        self.names = tuple(variable.name for variable in self.vars)
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        point = initial_point or model.initial_point()
        observed = {rv.name: current_value(model.rvs_to_values[rv]) for rv in model.observed_RVs}
        known = [complete(name, values) for name, values in observed.items() if values is not None]
        for process in inducing_processes(model).values():
            process.check_data(model)
        self._observations = max((values.size for values in known), default=1)
        self._shapes = {name: np.shape(point[name]) for name in self.names}
        self._dtypes = {variable.name: variable.dtype for variable in self.vars}
        self.function = self._function_of(model, {name: point[name] for name in self.names})
        self._reset(0, 0)

    def _function_of(self, model: pm.Model, point: dict[str, np.ndarray]) -> Any:
        """Return a function of the model that has a method `refresh_data`."""
        raise NotImplementedError

    def _refresh_data(self) -> None:
        self.function.refresh_data()

    @property
    def dimension(self) -> int:
        """The number of elements of all variables."""
        return sum(int(np.prod(shape)) for shape in self._shapes.values())

    def _vector(self, point: dict[str, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(point[name]) for name in self.names], dtype=float)

    def _named(self, variables: np.ndarray) -> dict[str, np.ndarray]:
        bounds = np.cumsum([int(np.prod(shape)) for shape in self._shapes.values()])[:-1]
        parts = np.split(variables, bounds)
        return self._shaped(dict(zip(self._shapes, parts, strict=True)))

    def _shaped(self, parts: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return values of the variables, in their order, with their shapes and types."""
        return {
            name: parts[name].reshape(shape).astype(self._dtypes[name], copy=False)
            for name, shape in self._shapes.items()
        }

    def _all_variables(self, vars: list[Any] | None, model: pm.Model) -> list[Any]:
        """Return the value variables; refuse conditionals, discrete ones, and any that the step was not given."""
        name = type(self).__name__
        if children := drawn_afterwards(model):
            refuse_children(model, names_of(list(filter(on_inducing_inputs, model.free_RVs))), children)
        if model.discrete_value_vars:
            names = ", ".join(repr(variable.name) for variable in model.discrete_value_vars)
            raise ValueError(f"{name} moves only continuous variables, but {names} is discrete: sum it out")
        given = [model.rvs_to_values.get(variable, variable) for variable in vars or model.value_vars]
        left = [variable.name for variable in model.value_vars if variable not in given]
        if left:
            raise ValueError(f"{name} moves all variables together; give it {', '.join(left)} too, or no variables")
        return list(model.value_vars)
