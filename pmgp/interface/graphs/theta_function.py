"""Functions of theta, alone or with other inputs; whatever does not depend on these is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import Subtensor
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.numpy_graph import NumpyGraph
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.remembered import remembered
from pmgp.interface.graphs.rewriting import SIMPLER, rewrite

# Operations whose results share memory with their inputs.
VIEWS = (DimShuffle, Subtensor, Reshape, SpecifyShape, ScalarFromTensor, TensorFromScalar)
REMEMBERED = 2


@remembered
def simplified(outputs: list[TensorVariable], *, exclude: tuple[str, ...] = ()) -> list[TensorVariable]:
    """Return equivalent graphs of few and accurate operations, not fused, in which none is repeated."""
    return rewrite(outputs, (*SIMPLER, "merge"), ("local_pow_to_nested_squaring", *exclude))


class ThetaFunction:
    """A function that maps theta to the values of outputs.

    The outputs are canonical and specialized. If one of the large outputs `whole` depends on theta, compiling is worth
    its time. If nothing may be `compiled`, UnsupportedGraphError is raised where NumPy has no equivalent.
    """

    def __init__(
        self,
        theta: TensorVariable,
        outputs: list[TensorVariable],
        compile_function: Compiler,
        whole: Sequence[TensorVariable] = (),
        compiled: bool = True,
    ) -> None:
        self._moves = [theta in set(ancestors([output])) for output in outputs]
        moving = [output for output, moves in zip(outputs, self._moves, strict=True) if moves]
        resting = [output for output, moves in zip(outputs, self._moves, strict=True) if not moves]
        graph = None if set(whole) & set(moving) else _calls_of_numpy(theta, moving, compiled)
        self._number_resting = len(resting)
        self._places = [place for place, moves in enumerate(self._moves) if moves]
        self._function = compile_function([theta], moving) if graph is None else graph
        # Called once in each chain, so compiling is not worth its time.
        self._at_rest = compile_function.as_written([], [*resting, *([] if graph is None else graph.fixed)])
        self.refresh_data()

    def refresh_data(self) -> None:
        """Recompute the values that do not depend on theta, as `pymc.set_data` may have changed them."""
        values = self._at_rest()
        resting, self._fixed = iter(values[: self._number_resting]), values[self._number_resting :]
        self._resting = [None if moves else next(resting) for moves in self._moves]

    def __call__(self, theta: np.ndarray) -> list[np.ndarray]:
        """Compute all outputs, in their order."""
        function = self._function
        moving = function(self._fixed, theta) if isinstance(function, NumpyGraph) else function(theta)
        values: list[Any] = self._resting.copy()
        for place, value in zip(self._places, moving, strict=True):
            values[place] = value
        return values


def _calls_of_numpy(theta: TensorVariable, outputs: list[TensorVariable], compiled: bool) -> NumpyGraph | None:
    try:
        return NumpyGraph([theta], outputs)
    except UnsupportedGraphError:
        if not compiled:
            raise
        return None


class NumpyFunction:
    """A function of inputs and theta that consists of NumPy calls, so that nothing has to be compiled.

    Values that depend on theta alone are computed when theta changes. If they may be `compiled`, they are where NumPy
    has no equivalent; otherwise UnsupportedGraphError is raised.
    """

    def __init__(
        self,
        inputs: list[TensorVariable],
        theta: TensorVariable,
        outputs: list[TensorVariable],
        compile_function: Compiler,
        compiled: bool = True,
    ) -> None:
        self._graph = NumpyGraph(inputs, outputs)
        self._fixed_at = ThetaFunction(theta, self._graph.fixed, compile_function, compiled=compiled)
        # The caller may change the arrays that are returned.
        kept = {*inputs, *self._graph.fixed}
        self._shared = [output in kept or isinstance(output.owner.op, VIEWS) for output in outputs]
        self._known: dict[bytes, list[np.ndarray]] = {}

    def refresh_data(self) -> None:
        """Recompute the values that depend neither on theta nor on the inputs."""
        self._fixed_at.refresh_data()
        self._known.clear()

    def __call__(self, *arguments: np.ndarray) -> list[np.ndarray]:
        """Compute all outputs from the inputs and theta."""
        *inputs, theta = arguments
        with np.errstate(all="ignore"):
            values = self._graph(self._fixed(theta), *inputs)
        return [np.array(v) if shared else v for v, shared in zip(values, self._shared, strict=True)]

    def at_elements(self, places: Any, length: int, *arguments: np.ndarray) -> list[np.ndarray]:
        """Compute all outputs for some elements of the last axis, along which the outputs are elementwise.

        `length` is that of the axis; the inputs have these elements only, and are followed by theta.
        """
        *inputs, theta = arguments
        fixed = [value[..., places] if np.shape(value)[-1:] == (length,) else value for value in self._fixed(theta)]
        with np.errstate(all="ignore"):
            values = self._graph(fixed, *inputs)
        return [np.array(v) if shared else v for v, shared in zip(values, self._shared, strict=True)]

    def _fixed(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the values that depend on theta alone, kept for the two values between which chains alternate."""
        key = theta.tobytes()
        if key not in self._known:
            for old in list(self._known)[: 1 - REMEMBERED]:
                del self._known[old]
            self._known[key] = self._fixed_at(theta)
        return self._known[key]
