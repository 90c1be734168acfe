"""A model's log-density and its gradient on a device, from its graph with PyTensor's functions for JAX."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.core.dense_jax.programs import in_double
from pmgp.interface.dense_jax.data import GraphData
from pmgp.interface.dense_jax.devices import OfOneProcess, device_of, memory_of
from pmgp.interface.tiles.jax_functions import jax_function


class JaxLogDensity(OfOneProcess):
    """A function from a vector of all variables to the log-density and its gradient, in double precision.

    It takes the place of `interface.graphs.numerical.NumericalFunction`, up to rounding. The data stay on the device.

    Parameters
    ----------
    log_density : scalar variable
    vector : vector variable
        The variable on which the log-density depends.
    size : int
        Its length.
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
        self, log_density: TensorVariable, vector: TensorVariable, size: int, device: str | None = None
    ) -> None:
        super().__init__()
        self._sources = GraphData([log_density])
        self._vector, self._size = vector, size
        self._device_name = device

    @classmethod
    def within(
        cls, log_density: TensorVariable, vector: TensorVariable, size: int, device: str | None, memory: float | None
    ) -> Self:
        """Return a function whose program fits into the memory of a device, or into the given bytes of it."""
        found = cls(log_density, vector, size, device)
        has = memory_of(found.device) if memory is None else memory
        if found.needed > has:
            raise MemoryError(
                f"the gradient of the log-density takes {found.needed / 1e9:.3g} GB, and {has / 1e9:.3g} GB are "
                "allowed: use a device with more memory, or fewer points or inducing inputs"
            )
        return found

    @cached_property
    def device(self) -> Any:
        """The device that computes."""
        return device_of(self._device_name)

    @property
    def needed(self) -> int:
        """The bytes that the program takes, with its arguments."""
        analysis = self._program.memory_analysis()
        return analysis.temp_size_in_bytes + analysis.argument_size_in_bytes + analysis.output_size_in_bytes

    def refresh_data(self) -> None:
        """Read the data again, as `pymc.set_data` may have changed them."""
        before = self._shapes
        del self._data
        if self._shapes != before:
            self.__dict__.pop("_program", None)

    def __call__(self, vector: np.ndarray) -> list[np.ndarray]:
        """Return the log-density and its gradient, which are not a number where a matrix is not positive definite."""
        self.refuse_fork()
        return [np.array(part) for part in self._program(self._placed(vector), self._data)]

    @in_double
    def _placed(self, values: Any) -> Any:
        return jax.device_put(values, self.device)

    @cached_property
    def _data(self) -> tuple[Any, ...]:
        return tuple(self._placed(one) for one in self._sources.values())

    @property
    def _shapes(self) -> list[Any]:
        return [one.shape for one in self._data]

    @cached_property
    def _program(self) -> Any:
        function = jax_function([self._vector, *self._sources.inputs], self._sources.graphs)

        def log_density(vector: Any, data: tuple[Any, ...]) -> Any:
            return jnp.asarray(function(vector, *data)[0], float)

        lowered = in_double(jax.jit(jax.value_and_grad(log_density)).lower)
        return lowered(self._placed(np.zeros(self._size)), self._data).compile()
