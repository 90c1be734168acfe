"""The process on inducing inputs of a model, found by the random variable of its whitened values."""

from __future__ import annotations

from typing import Any, Protocol, cast

import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.latent_variable import ModelError


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

    def predict(self, idata: Any, Xnew: Any, *, model: pm.Model | None, draws: int | None) -> xr.Dataset:
        """Return the predictive distribution at new inputs."""

    def diagnose(self, idata: Any, *, model: pm.Model | None) -> Any:
        """Return the effect of the inducing inputs on the posterior, with a description in words."""


def attach(whitened: TensorVariable, process: InducingProcess) -> None:
    """Store a process with the random variable of its whitened values."""
    whitened.tag.inducing_process = process


def inducing_process(model: pm.Model) -> InducingProcess | None:
    """Return a model's process on inducing inputs, or None if it has none; refuse several."""
    found = [rv for rv in model.free_RVs if hasattr(rv.tag, "inducing_process")]
    if len(found) > 1:
        names = ", ".join(repr(rv.name) for rv in found)
        raise ModelError(
            f"the model has several processes on inducing inputs ({names}): sample it with "
            "step=pmgp.steps.SparseHMC(), and call the methods of each process, such as gp.predict"
        )
    return cast(InducingProcess, found[0].tag.inducing_process) if found else None
