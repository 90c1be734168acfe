"""The mean and the covariance of f at old and new inputs together, computed only in the parts that are needed.

If the graph of the covariance can be written as instructions (`interface.covariance.program`), it can be evaluated on
any rectangle, and on the diagonal alone. Other graphs are evaluated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.covariance.executor import MomentParts, by_kind
from pmgp.interface.covariance.program import Program
from pmgp.interface.graphs.numpy_operations import UnsupportedGraphError
from pmgp.interface.graphs.rewriting import rewrite

# Relative to the largest covariance: less than a jitter, and more than rounding where inputs are up to several
# thousand length-scales away from zero.
SAME = 1e-8

Compile = Callable[[list[TensorVariable]], Callable[..., list[np.ndarray]]]


class Parts(Protocol):
    """Moments at some inputs, with the mean (N,)."""

    mean: np.ndarray

    def rectangle(self, rows: slice, columns: slice) -> np.ndarray:
        """Return a part of the covariance."""

    def lower_triangle(self, where: slice) -> np.ndarray:
        """Return a square part on the diagonal, in Fortran order; elements above its own diagonal are arbitrary."""

    def diagonal(self, where: slice) -> np.ndarray:
        """Return a part of the diagonal."""


class JointMoments(Protocol):
    """The moments as a function of inputs of shape (N, d) and theta.

    `whole` says whether memory for the whole covariance is needed.
    """

    whole: bool

    def __call__(self, X: np.ndarray, theta: list[np.ndarray]) -> Parts:
        """Return the moments at theta."""


def compile_joint_moments(
    mean: TensorVariable, covariance: TensorVariable, compile_function: Compile, X: np.ndarray, theta: list[np.ndarray]
) -> JointMoments:
    """Return the fastest function for the moments that agrees with PyTensor's at these inputs and theta.

    At least two of the inputs X (k, d) must be equal.
    """
    whole = WholeMoments(mean, covariance, compile_function)
    try:
        quick = PartialMoments(mean, covariance, compile_function)
    except UnsupportedGraphError:
        return whole
    return quick if _agree(quick(X, theta), whole(X, theta), len(X)) else whole


def _agree(parts: Parts, expected: Parts, size: int) -> bool:
    everything, half = slice(0, size), slice(size // 2, size)
    covariance = expected.rectangle(everything, everything)
    differences = [
        parts.rectangle(half, everything) - covariance[half],
        np.tril(parts.lower_triangle(everything) - covariance),
        parts.diagonal(half) - covariance.diagonal()[half],
    ]
    largest = max(np.abs(difference).max() for difference in differences)
    close = bool(largest <= SAME * np.abs(covariance).max())
    return close and np.allclose(parts.mean, expected.mean, rtol=SAME, atol=SAME)


class WholeMoments:
    """Moments whose covariance is computed as a whole."""

    whole = True

    def __init__(self, mean: TensorVariable, covariance: TensorVariable, compile_function: Compile) -> None:
        self._function = compile_function([mean, covariance])

    def __call__(self, X: np.ndarray, theta: list[np.ndarray]) -> Parts:
        """Return the moments at theta."""
        return WholeParts(*self._function(X, *theta))


class WholeParts:
    """Moments with the whole covariance in memory."""

    def __init__(self, mean: np.ndarray, covariance: np.ndarray) -> None:
        self.mean = mean
        self._covariance = covariance

    def rectangle(self, rows: slice, columns: slice) -> np.ndarray:
        """Return a part of the covariance."""
        return self._covariance[rows, columns]

    def lower_triangle(self, where: slice) -> np.ndarray:
        """Return a square part on the diagonal."""
        return np.asfortranarray(self._covariance[where, where])

    def diagonal(self, where: slice) -> np.ndarray:
        """Return a part of the diagonal."""
        return self._covariance.diagonal()[where]


class PartialMoments:
    """Moments whose covariance is an elementwise function of thin matrices."""

    whole = False

    def __init__(self, mean: TensorVariable, covariance: TensorVariable, compile_function: Compile) -> None:
        mean, covariance = rewrite([mean, covariance])
        program = Program(covariance)
        if any(not any(leaf.type.broadcastable) for leaf in program.leaves):
            raise UnsupportedGraphError("a covariance with a part that is only known as a whole")
        self._code = program.code
        self._shape = program.shape
        self._function = compile_function([mean, *program.thin])

    def __call__(self, X: np.ndarray, theta: list[np.ndarray]) -> Parts:
        """Return the moments at theta."""
        mean, *values = self._function(X, *theta)
        inputs = by_kind(values, self._shape)
        inputs["diagonal"] = [np.broadcast_to(added, mean.shape) for added in inputs["diagonal"]]
        return MomentParts(mean, self._code, inputs)
