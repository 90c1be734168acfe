"""PyTensor's graphs as JAX functions.

PyTensor sets JAX's flag for double precision when its functions for JAX are loaded, here or elsewhere. If it were
restored, PyMC's JAX samplers, which rely on it, would run in single precision from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from pytensor.compile.mode import JAX
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter
from pytensor.link.jax.dispatch import jax_funcify
from pytensor.tensor.basic import Eye
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError


class _UnfoldedEye(Eye):
    """An identity matrix that is not computed while the graph is rewritten, when it would take n^2 numbers."""

    def do_constant_folding(self, fgraph: Any, node: Any) -> bool:
        """Return false."""
        return False


@node_rewriter([Eye])
def _unfolded(fgraph: Any, node: Any) -> list[Any] | None:
    return None if isinstance(node.op, _UnfoldedEye) else [_UnfoldedEye(node.op.dtype)(*node.inputs)]


def jax_function(inputs: list[TensorVariable], outputs: list[TensorVariable]) -> Callable[..., Any]:
    """Return a JAX function of the inputs to a tuple of the outputs."""
    # The flag may have been cleared since, and constants are made here.
    with jax.enable_x64(True):
        graph = FunctionGraph(inputs, outputs, clone=True)
        dfs_rewriter(_unfolded).rewrite(graph)
        JAX.optimizer.rewrite(graph)
        try:
            return jax_funcify(graph)
        except NotImplementedError as error:
            raise UnsupportedGraphError(f"PyTensor has no JAX function for an operation: {error}") from error
