"""K(theta) on a device, and its gradient, from a model's graph with PyTensor's functions for JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.dense_jax.gaussians import JaxPrior
from pmgp.core.dense_jax.programs import in_double, program
from pmgp.interface.dense_jax.data import GraphData
from pmgp.interface.dense_jax.devices import OfOneProcess, compiled, device_of
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.tiles.jax_functions import jax_function


class _Programs(NamedTuple):
    """Compiled functions of theta and of the model's data, as a tuple: m and K, and the gradient of <bars, (m, K)>."""

    moments: Any
    pullback: Any


class JaxCovariance(OfOneProcess):
    """The function from theta to p(f|theta) with K on a device.

    Parameters
    ----------
    mean, covariance : variables
        Graphs of the value variables.
    theta : ThetaVector
    device : str, optional
        See `devices.device_of`.

    Raises
    ------
    ValueError
        If JAX has no such device.
    UnsupportedGraphError
        If PyTensor has no JAX function for an operation.
    """

    def __init__(
        self, mean: TensorVariable, covariance: TensorVariable, theta: ThetaVector, device: str | None = None
    ) -> None:
        super().__init__()
        graphs, self._theta = theta.write([mean, covariance])
        self._data = GraphData(graphs)
        self._device_name = device

    @cached_property
    def device(self) -> Any:
        """The device that holds K."""
        return device_of(self._device_name)

    def __call__(self, theta: np.ndarray) -> JaxPrior:
        """Return p(f|theta)."""
        mean, covariance = self._programs.moments(*self.at(theta))
        return JaxPrior(np.array(mean), covariance)

    def pullback(self, theta: np.ndarray, covariance_bar: Any, mean_bar: np.ndarray) -> np.ndarray:
        """Return the gradient in theta of <covariance_bar, K> + mean_bar' m; the bar has both triangles."""
        return np.array(self._programs.pullback(*self.at(theta), mean_bar, covariance_bar))

    @in_double
    def temporary(self, theta: np.ndarray) -> int:
        """Return the bytes that K takes while it is computed, or its gradient if that is more, besides the results."""
        given = self.at(theta)
        mean, covariance = jax.eval_shape(self._programs.moments, *given)
        moments = self._programs.moments.__wrapped__.lower(*given)
        gradient = self._programs.pullback.__wrapped__.lower(*given, mean, covariance)
        return max(compiled(one).memory_analysis().temp_size_in_bytes for one in (moments, gradient))

    @in_double
    def trace_pullback(self, theta: np.ndarray) -> None:
        """Raise JAX's error now if an operation has no gradient."""
        given = self.at(theta)
        jax.eval_shape(self._programs.pullback, *given, *jax.eval_shape(self._programs.moments, *given))

    def at(self, theta: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
        """Return the arguments of the programs: theta on the device, and the model's data."""
        self.refuse_fork()
        with jax.enable_x64(True):
            placed = jax.device_put(np.asarray(theta, dtype=float), self.device)
        return placed, self._data.values()

    @cached_property
    def moments(self) -> Callable[..., tuple[Any, Any]]:
        """A JAX function from theta and the model's data, as a tuple, to m and K."""
        function = jax_function([self._theta, *self._data.inputs], self._data.graphs)

        def moments(theta: Any, data: tuple[Any, ...]) -> tuple[Any, Any]:
            mean, covariance = function(theta, *data)
            return jnp.asarray(mean, float), jnp.asarray(covariance, float)

        return moments

    @cached_property
    def _programs(self) -> _Programs:
        moments = self.moments

        def pullback(theta: Any, data: tuple[Any, ...], mean_bar: Any, covariance_bar: Any) -> Any:
            return jax.vjp(lambda theta: moments(theta, data), theta)[1]((mean_bar, covariance_bar))[0]

        return _Programs(program()(moments), program()(pullback))
