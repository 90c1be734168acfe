"""The process on inducing inputs of a model, found by the random variable of its whitened values."""

from __future__ import annotations

from typing import Any, Protocol

import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.latent_variable import ModelError, on_inducing_inputs, without_data


class InducingProcess(Protocol):
    """The methods of a process on inducing inputs; :class:`pmgp.gp.Sparse` has them."""

    @property
    def points(self) -> int:
        """The number of inputs of the observations."""

    @property
    def size(self) -> int:
        """The number of inducing inputs."""

    @property
    def outputs(self) -> int:
        """The number of independent processes, such as one for each class."""

    @property
    def factors(self) -> list[TensorVariable]:
        """R of each covariance function; the values at the inducing inputs are R v plus their mean."""

    def check_data(self, model: pm.Model) -> None:
        """Refuse data that cannot be observations of the process, since `pymc.set_data` may have changed them."""

    def predict(self, idata: Any, Xnew: Any, *, model: pm.Model | None, draws: int | None) -> xr.Dataset:
        """Return the predictive distribution at new inputs."""

    def diagnose(self, idata: Any, *, model: pm.Model | None) -> Any:
        """Return the effect of the inducing inputs on the posterior, with a description in words."""


def attach(whitened: TensorVariable, process: InducingProcess) -> None:
    """Store a process with the random variable of its whitened values."""
    whitened.tag.inducing_process = process


def inducing_process(model: pm.Model) -> InducingProcess | None:
    """Return a model's process on inducing inputs, or None if it has none; refuse several."""
    found = inducing_processes(model)
    if len(found) > 1:
        raise ModelError(
            f"the model has several processes on inducing inputs ({', '.join(map(repr, found))}): call the methods of "
            "each, such as gp.predict"
        )
    return next(iter(found.values()), None)


def inducing_processes(model: pm.Model) -> dict[str, InducingProcess]:
    """Return a model's processes on inducing inputs by the names of their whitened values."""
    return {rv.name: rv.tag.inducing_process for rv in model.free_RVs if on_inducing_inputs(rv)}


def drawn_afterwards(model: pm.Model) -> list[TensorVariable]:
    """Return the free variables that are drawn given the whitened values, such as conditionals at new inputs."""
    return without_data(model, list(filter(on_inducing_inputs, model.free_RVs)))


def sampled_variables(model: pm.Model) -> list[TensorVariable]:
    """Return the free variables that make up the target: whitened values and hyper-parameters."""
    others = drawn_afterwards(model)
    return [rv for rv in model.free_RVs if rv not in others]
