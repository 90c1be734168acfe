"""log p(theta) as operations on Python's numbers, as calls of NumPy, or compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import CompiledOnRequest
from pmgp.interface.graphs.number_graph import NumberGraph
from pmgp.interface.graphs.theta_function import NumpyFunction
from pmgp.interface.graphs.unrolling import unrolled_sum
from pmgp.interface.model.comparison import same_values
from pmgp.interface.model.theta_vector import ThetaVector

# At the initial theta, often a mode, the gradient may be zero, and nothing is then equal up to a fraction of it.
ASIDE = 0.1


class ThetaPrior:
    """The function from theta to log p(theta) on the unconstrained scale."""

    def __init__(self, terms: list[TensorVariable], theta: ThetaVector) -> None:
        self.graph = pt.add(*[term.sum() for term in terms], 0.0)
        # The unrolled graph is faster to compute and to compile, and is chosen if it has the same value.
        chosen = unrolled_sum(terms)
        [expected] = theta.values_of([self.graph])
        function = _by_numbers(theta, chosen, expected)
        if function is None:
            [found] = theta.values_of([chosen])
            if not same_values(expected, found):
                chosen = self.graph
                function = _by_numbers(theta, chosen, expected)
        # For a matrix of correlations NumPy takes twenty microseconds, and Numba three after ten seconds of compiling.
        self._function = function or _by_arrays(theta, self.graph, expected) or _compiled(theta, chosen)
        self._gradient = CompiledOnRequest(
            partial(theta.compile_gradient, [], chosen), partial(_gradient_without_compiling, theta, chosen, self.graph)
        )

    def __call__(self, theta: np.ndarray) -> float:
        """Return log p(theta)."""
        return float(self._function(theta)[0])

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the gradient of log p(theta): (dimension,)."""
        return np.asarray(self._gradient(theta)[-1])


def _by_numbers(theta: ThetaVector, scalar: TensorVariable, expected: np.ndarray) -> NumberGraph | None:
    """Return the function of theta that need not be compiled, if it has the expected value at the initial theta."""
    numbers = theta.by_numbers(scalar)
    return numbers if numbers is not None and same_values(expected, np.asarray(numbers(theta.initial)[0])) else None


def _by_arrays(theta: ThetaVector, scalar: TensorVariable, expected: np.ndarray) -> NumpyFunction | None:
    """Return the function of theta as calls of NumPy, if it has the expected value at the initial theta."""
    function = theta.by_arrays(scalar)
    return function if function is not None and same_values(expected, function(theta.initial)[0]) else None


def _compiled(theta: ThetaVector, scalar: TensorVariable) -> Callable[[np.ndarray], list[Any]]:
    function = theta.compile([], [scalar])
    # Numba compiles at the first call: here, and not in each worker.
    function(theta.initial)
    return function


class _Gradient:
    """A function of theta that returns a list with one vector, made of numbers."""

    def __init__(self, numbers: NumberGraph) -> None:
        self.numbers = numbers

    def __call__(self, theta: np.ndarray) -> list[np.ndarray]:
        return [np.array(self.numbers(theta))]


def _gradient_without_compiling(
    theta: ThetaVector, unrolled: TensorVariable, scalar: TensorVariable
) -> _Gradient | NumpyFunction | None:
    """Return the gradient as operations on numbers or as calls of NumPy, unless it would differ from PyTensor's."""
    numbers = theta.gradient_by_numbers(unrolled)
    function = theta.by_arrays(scalar, gradient=True) if numbers is None else _Gradient(numbers)
    if function is None:
        return None
    beside = theta.initial + ASIDE
    [_, expected] = theta.compile_gradient([], scalar, interpreted=True)(beside)
    return function if same_values(expected, function(beside)[-1]) else None
