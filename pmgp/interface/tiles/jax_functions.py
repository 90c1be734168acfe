"""PyTensor's graphs as JAX functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from pytensor.graph.fg import FunctionGraph
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError


def jax_function(inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., Any]:
    """Return a JAX function of the inputs to a tuple of the outputs."""
    # Constants are made while the function is.
    with _precision_kept(), jax.enable_x64(True):
        from pytensor.compile.mode import JAX
        from pytensor.link.jax.dispatch import jax_funcify

        graph = FunctionGraph(inputs, outputs, clone=True)
        JAX.optimizer.rewrite(graph)
        try:
            return jax_funcify(graph)
        except NotImplementedError as error:
            raise UnsupportedGraphError(f"PyTensor has no JAX function for an operation: {error}") from error


@contextmanager
def _precision_kept() -> Iterator[None]:
    """Restore JAX's flag for double precision, which PyTensor sets for the whole process when it is loaded."""
    before = jax.config.jax_enable_x64
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
