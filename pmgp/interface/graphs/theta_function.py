"""Functions of theta, and of theta and other inputs: what does not depend on these is computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numpy_graph import NumpyGraph
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError

# Their results share memory with what they are taken from.
VIEWS = (DimShuffle, Subtensor, ScalarFromTensor, TensorFromScalar)
REMEMBERED = 2


def simplified(outputs: list[TensorVariable], exclude: tuple[str, ...] = ()) -> list[TensorVariable]:
    """Graphs of few and accurate operations, each by itself and each once."""
    return rewrite_graph(
        outputs,
        include=("canonicalize", "stabilize", "specialize", "merge"),
        exclude=("local_pow_to_nested_squaring", *exclude),
        clone=True,
    )


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
        self._places = [place for place, moves in enumerate(self._moves) if moves]
        self._function = compile_function([theta], moving) if graph is None else graph
        # Once a chain, so that compiling would not pay.
        self._at_rest = compile_function([], [*resting, *([] if graph is None else graph.fixed)], interpreted=True)
        self.refresh_data()

    def refresh_data(self) -> None:
        """Compute again what does not depend on theta, as `pymc.set_data` may have changed it."""
        values = self._at_rest()
        resting, self._fixed = iter(values[: self._number_resting]), values[self._number_resting :]
        self._resting = [None if moves else next(resting) for moves in self._moves]

    def __call__(self, theta: np.ndarray) -> list[np.ndarray]:
        """Values of all outputs, in their order."""
        function = self._function
        moving = function(self._fixed, theta) if isinstance(function, NumpyGraph) else function(theta)
        values: list[Any] = self._resting.copy()
        for place, value in zip(self._places, moving, strict=True):
            values[place] = value
        return values


def _calls_of_numpy(theta: TensorVariable, outputs: list[TensorVariable]) -> NumpyGraph | None:
    try:
        return NumpyGraph([theta], outputs)
    except UnsupportedGraphError:
        return None


class NumpyFunction:
    """From inputs and theta to the values of outputs, by calls of NumPy, with nothing to compile.

    What depends on theta alone is computed when that changes.

    Parameters
    ----------
    inputs : list of variables
    theta : vector
    outputs : list of variables
        Canonical and specialized.
    compile_function : callable
        As of `ThetaFunction`.

    Raises
    ------
    UnsupportedGraphError
        If an operation has no equivalent in NumPy.
    """

    def __init__(
        self,
        inputs: list[TensorVariable],
        theta: TensorVariable,
        outputs: list[TensorVariable],
        compile_function: Callable[..., Callable[..., Any]],
    ) -> None:
        self._graph = NumpyGraph(inputs, outputs)
        self._fixed_at = ThetaFunction(theta, self._graph.fixed, compile_function)
        # The caller may change what is returned.
        kept = {*inputs, *self._graph.fixed}
        self._shared = [output in kept or isinstance(output.owner.op, VIEWS) for output in outputs]
        self._known: dict[bytes, list[np.ndarray]] = {}

    def refresh_data(self) -> None:
        """Compute again what depends neither on theta nor on the inputs."""
        self._fixed_at.refresh_data()
        self._known.clear()

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """All outputs, from the inputs and theta."""
        *inputs, theta = arguments
        with np.errstate(all="ignore"):
            values = self._graph(self._fixed(theta), *inputs)
        return [np.array(v) if shared else v for v, shared in zip(values, self._shared, strict=True)]

    def at_places(self, places: Any, length: int, *arguments: np.ndarray) -> list[np.ndarray]:
        """All outputs for some elements of the last axis alone, where the outputs are elementwise in that.

        Parameters
        ----------
        places : slice or array of int
        length : int
            Of that axis.
        *arguments
            The inputs, whose last axis has these elements alone, and theta.
        """
        *inputs, theta = arguments
        fixed = [value[..., places] if np.shape(value)[-1:] == (length,) else value for value in self._fixed(theta)]
        with np.errstate(all="ignore"):
            values = self._graph(fixed, *inputs)
        return [np.array(v) if shared else v for v, shared in zip(values, self._shared, strict=True)]

    def _fixed(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the values that depend on theta alone, kept for two thetas, between which chains go back and forth."""
        key = theta.tobytes()
        if key not in self._known:
            for old in list(self._known)[: 1 - REMEMBERED]:
                del self._known[old]
            self._known[key] = self._fixed_at(theta)
        return self._known[key]
