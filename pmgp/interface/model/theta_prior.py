"""log p(theta): by numbers, or compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import CompiledWhenCalled
from pmgp.interface.graphs.unrolling import unrolled_sum
from pmgp.interface.model.comparison import same_values
from pmgp.interface.model.theta_vector import ThetaVector

__all__ = ["ThetaPrior"]


class ThetaPrior:
    """Theta to log p(theta) on the unconstrained scale.

    Parameters
    ----------
    terms : list of variables
        Of the log-density, in terms of the value variables.
    theta : ThetaVector

    Attributes
    ----------
    graph : scalar
        Their sum.
    """

    def __init__(self, terms: list[TensorVariable], theta: ThetaVector) -> None:
        self.graph = pt.add(*[term.sum() for term in terms], 0.0)
        unrolled = unrolled_sum(terms)
        expected, found = theta.compile([], [self.graph, unrolled], interpreted=True)(theta.initial)
        # The unrolled graph is computed and compiled faster where it has the same value.
        chosen = unrolled if same_values(expected, found) else self.graph
        self._gradient = CompiledWhenCalled(partial(theta.compile_gradient, [], chosen))
        function: Callable[[np.ndarray], float] | None = theta.by_numbers(chosen)
        if function is None or not same_values(expected, np.asarray(function(theta.initial))):
            function = _Compiled(theta.compile([], [chosen]))
            # Numba compiles at the first call: here, and not in each worker.
            function(theta.initial)
        self._function = function

    def __call__(self, theta: np.ndarray) -> float:
        """Log p(theta)."""
        return self._function(theta)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Gradient of log p(theta), compiled when it is first needed: (dimension,)."""
        return self._gradient(theta)[1]


class _Compiled:
    """The one output of a compiled function."""

    def __init__(self, function: Callable[..., list[np.ndarray]]) -> None:
        self.function = function

    def __call__(self, theta: np.ndarray) -> float:
        return float(self.function(theta)[0])
