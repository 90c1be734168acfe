"""Several outputs as one function of theta: what does not depend on it is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numpy_graph import NumpyGraph, UnsupportedGraphError

__all__ = ["ThetaFunction"]


class ThetaFunction:
    """From theta to the values of outputs.

    Parameters
    ----------
    theta : vector
    outputs : list of variables
        Canonical and specialized.
    compile_function : callable
        From lists of inputs and outputs, and whether to interpret, to a function; a `Compiler`.
    whole : list of variables, optional
        Outputs that are large, so that it pays to compile what moves with theta.
    """

    def __init__(
        self,
        theta: TensorVariable,
        outputs: list[TensorVariable],
        compile_function: Callable[..., Callable[..., Any]],
        whole: Sequence[TensorVariable] = (),
    ) -> None:
        self._moves = [theta in set(ancestors([output])) for output in outputs]
        moving = [output for output, moves in zip(outputs, self._moves, strict=True) if moves]
        resting = [output for output, moves in zip(outputs, self._moves, strict=True) if not moves]
        graph = None if set(whole) & set(moving) else _calls_of_numpy(theta, moving)
        self._number_resting = len(resting)
        self._function = compile_function([theta], moving) if graph is None else graph
        # Once a chain, so that compiling would not pay.
        self._at_rest = compile_function([], [*resting, *([] if graph is None else graph.fixed)], interpreted=True)
        self.refresh_data()

    def refresh_data(self) -> None:
        """Compute again what does not depend on theta, as `pymc.set_data` may have changed it."""
        values = self._at_rest()
        self._resting, self._fixed = values[: self._number_resting], values[self._number_resting :]

    def __call__(self, theta: np.ndarray) -> list[np.ndarray]:
        """Values of all outputs, in their order."""
        function = self._function
        moving = iter(function(self._fixed, theta) if isinstance(function, NumpyGraph) else function(theta))
        resting = iter(self._resting)
        return [next(moving if moves else resting) for moves in self._moves]


def _calls_of_numpy(theta: TensorVariable, outputs: list[TensorVariable]) -> NumpyGraph | None:
    try:
        return NumpyGraph([theta], outputs)
    except UnsupportedGraphError:
        return None
