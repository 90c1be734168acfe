"""Theta as one vector: its parts by name, and graphs of the model's value variables as functions of theta."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from itertools import pairwise
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import Compiler
from pmgp.interface.graphs.number_graph import NumberGraph
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.theta_function import NumpyFunction, ThetaFunction, simplified
from pmgp.interface.model.latent_variable import ModelError
from pmgp.interface.model.missing_gradients import naming_missing_gradients

# Rewrites that would make the stable form of an unrolled log of a sum stable again.
UNROLLED = ("local_log_add_exp", "local_log_sum_exp")


class ThetaVector:
    """The hyper-parameters on the unconstrained scale, in the order of `values`."""

    def __init__(self, values: list[TensorVariable], point: dict[str, np.ndarray], compile_function: Compiler) -> None:
        self.values = values
        self.compile_function = compile_function
        self._point = {value.name: np.asarray(point[value.name], dtype=float) for value in values}
        self._sizes = [value.size for value in self._point.values()]
        ends = np.cumsum([0, *self._sizes]).tolist()
        parts = [slice(*bounds) for bounds in pairwise(ends)]
        self._parts = [(n, part, v.shape) for (n, v), part in zip(self._point.items(), parts, strict=True)]
        self._dtypes = [np.dtype(value.dtype) for value in values]

    @property
    def names(self) -> list[str]:
        """The names of the value variables."""
        return list(self._point)

    @property
    def initial(self) -> np.ndarray:
        """Theta at the model's initial point."""
        return self.ravel(self._point)

    @property
    def dimension(self) -> int:
        """The length of theta."""
        return sum(self._sizes)

    @property
    def discrete(self) -> list[TensorVariable]:
        """The value variables that are not continuous."""
        return [value for value in self.values if value.dtype not in ("float32", "float64")]

    def refuse(self, discrete: list[TensorVariable]) -> None:
        """Refuse discrete hyper-parameters, if there are any."""
        if discrete:
            names = ", ".join(value.name for value in discrete)
            raise ModelError(
                f"hyper-parameters must be continuous; these are not: {names}. Sample discrete variables on which only "
                "the likelihood depends with a step method besides pmgp.PseudoMarginal; marginalize the others, or run "
                "one chain for each of their values"
            )

    def places(self, values: Collection[TensorVariable]) -> np.ndarray:
        """Return the indices of some of the value variables in the vector."""
        return np.flatnonzero(np.repeat([value in values for value in self.values], self._sizes))

    def ravel(self, point: dict[str, np.ndarray]) -> np.ndarray:
        """Return the vector from a point of the model."""
        if not self._point:
            return np.empty(0)
        return np.concatenate([np.ravel(point[name]) for name in self._point], dtype=float)

    def agrees(self, point: dict[str, np.ndarray], theta: np.ndarray) -> bool:
        """Return whether a point of the model has this theta, rounded as the variables are."""
        # Equal bytes are equal numbers; comparing bytes takes a fifth of the time.
        if b"".join([np.asarray(point[name]).tobytes() for name in self._point]) == theta.tobytes():
            return True
        return np.array_equal(self.ravel(point), self.rounded(theta))

    def rounded(self, theta: np.ndarray) -> np.ndarray:
        """Return the vector as the variables hold it, which may be in single precision."""
        return self.ravel(self.unravel(theta))

    def unravel(self, theta: np.ndarray) -> dict[str, np.ndarray]:
        """Return the values of the variables by name and of their types, from the vector."""
        parts = zip(self._parts, self._dtypes, strict=True)
        return {name: theta[part].reshape(shape).astype(dtype) for (name, part, shape), dtype in parts}

    def elements_of(self, graphs: list[TensorVariable]) -> list[int]:
        """Return the indices in the vector of the value variables on which graphs depend."""
        return self.places(set(ancestors(graphs))).tolist()

    def write(self, outputs: list[TensorVariable]) -> tuple[list[TensorVariable], TensorVariable]:
        """Return graphs of the value variables as graphs of the vector, and the vector."""
        theta = pt.vector("theta", shape=(self.dimension,), dtype="float64")
        replacement = {}
        for value, (_, part, shape) in zip(self.values, self._parts, strict=True):
            written = theta[part].reshape(shape) if shape else theta[part.start]
            replacement[value] = value.type.filter_variable(written.astype(value.dtype))
        # Together, so that what outputs share is copied once.
        return clone_replace(outputs, replacement, rebuild_strict=False), theta

    def compile(
        self, inputs: list[TensorVariable], outputs: list[TensorVariable], interpreted: bool = False
    ) -> Callable[..., Any]:
        """Return graphs of the value variables as a compiled or interpreted function of (inputs, theta)."""
        outputs, theta = self.write(outputs)
        return self.compile_function([*inputs, theta], outputs, interpreted)

    def values_of(self, outputs: list[TensorVariable]) -> list[np.ndarray]:
        """Return the values of graphs at the initial theta, computed as they are written."""
        outputs, theta = self.write(outputs)
        with np.errstate(all="ignore"):
            return self.compile_function.as_written([theta], outputs)(self.initial)

    def compile_small(self, outputs: list[TensorVariable]) -> ThetaFunction:
        """Return graphs with a few small values as a function of theta."""
        outputs, theta = self.write(outputs)
        return ThetaFunction(theta, simplified(outputs), self.compile_function)

    def by_numpy(self, inputs: list[TensorVariable], outputs: list[TensorVariable]) -> NumpyFunction | None:
        """Return graphs of the value variables as a NumPy function of (inputs, theta).

        It is None if NumPy has no equivalent of an operation, or if the user chose a mode of PyTensor.
        """
        if self.compile_function.mode_given:
            return None
        outputs, theta = self.write(outputs)
        try:
            return NumpyFunction(inputs, theta, simplified(outputs, exclude=UNROLLED), self.compile_function)
        except UnsupportedGraphError:
            return None

    def by_arrays(self, scalar: TensorVariable, gradient: bool = False) -> NumpyFunction | None:
        """Return a scalar graph of the value variables, perhaps with its gradient in theta, as calls of NumPy.

        It is a function of theta, or None if NumPy has no equivalent of an operation, if data may change, or if the
        user chose a mode of PyTensor.
        """
        if self.compile_function.mode_given or any(isinstance(v, SharedVariable) for v in ancestors([scalar])):
            return None
        [scalar], theta = self.write([scalar])
        outputs = [scalar, self._gradient(scalar, theta)] if gradient else [scalar]
        try:
            return NumpyFunction([], theta, simplified(outputs, exclude=UNROLLED), self.compile_function, False)
        except UnsupportedGraphError:
            return None

    def by_numbers(self, scalar: TensorVariable) -> NumberGraph | None:
        """Return a scalar graph of the value variables as operations on Python's numbers, a function of theta.

        It is None if the graph has other operations than those on single elements, or if the user chose a mode of
        PyTensor.
        """
        if self.compile_function.mode_given or not self.values:
            return None
        [scalar], theta = self.write([scalar])
        return _numbers(theta, [scalar])

    def gradient_by_numbers(self, scalar: TensorVariable) -> NumberGraph | None:
        """Return a scalar graph's gradient in theta as operations on numbers; None if :meth:`by_numbers` returns it."""
        if self.by_numbers(scalar) is None:
            return None
        [scalar], theta = self.write([scalar])
        elements = [pt.scalar(dtype=theta.dtype) for _ in range(self.dimension)]
        # Each element is a scalar variable, so that the gradient is not assembled as a vector.
        [scalar] = simplified(clone_replace(simplified([scalar]), {theta: pt.stack(elements)}))
        with _naming_missing_gradients():
            gradient = pt.grad(scalar, elements, disconnected_inputs="ignore")
        return _numbers(theta, clone_replace(gradient, {e: theta[place] for place, e in enumerate(elements)}))

    def compile_gradient(
        self, inputs: list[TensorVariable], scalar: TensorVariable, interpreted: bool = False
    ) -> Callable[..., Any]:
        """Return a scalar graph and its gradient in theta as a function of (inputs, theta)."""
        [scalar], theta = self.write([scalar])
        return self.compile_function([*inputs, theta], [scalar, self._gradient(scalar, theta)], interpreted)

    @staticmethod
    def _gradient(scalar: TensorVariable, theta: TensorVariable) -> TensorVariable:
        with _naming_missing_gradients():
            return pt.grad(scalar, theta, disconnected_inputs="ignore")


def _naming_missing_gradients() -> AbstractContextManager[None]:
    advice = 'PseudoMarginal(proposal="mixture") and operator="metropolis" of other step methods need none'
    return naming_missing_gradients("the hyper-parameters", advice)


def _numbers(theta: TensorVariable, outputs: list[TensorVariable]) -> NumberGraph | None:
    try:
        return NumberGraph(theta, simplified(outputs))
    except UnsupportedGraphError:
        return None
