"""The data of a graph as arguments of a JAX program."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorConstant, TensorVariable

# Constants of more elements are arguments of the program, since XLA computes with constants while it compiles.
LARGE = 1000


class GraphData:
    """Shared variables and large constants of graphs.

    `inputs`: a variable for each of them; `graphs`: the graphs with these in their place.
    """

    def __init__(self, graphs: list[TensorVariable]) -> None:
        self._sources = [one for one in ancestors(graphs) if _is_data(one)]
        self.inputs: list[Any] = [one.type() for one in self._sources]
        self.graphs = clone_replace(graphs, dict(zip(self._sources, self.inputs, strict=True)))

    def values(self) -> tuple[Any, ...]:
        """Return the present values, as `pymc.set_data` may have changed them."""
        return tuple(
            one.data if isinstance(one, TensorConstant) else one.get_value(borrow=True) for one in self._sources
        )


def _is_data(variable: Any) -> bool:
    large = isinstance(variable, TensorConstant) and np.size(variable.data) > LARGE
    return large or isinstance(variable, SharedVariable)
