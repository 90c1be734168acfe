"""A process in time at new times, given its values at old times: its states take O(n + m) for each theta.

It has the role that `LatentProcess` has for a process with a covariance matrix.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.pytensorf import compile as compile_pytensor
from pytensor.compile import SharedVariable
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov import Line, StatePattern, Times, lines_of, sample_path, transitions
from pmgp.interface.model.time_series import process_of
from pmgp.interface.prediction.point_function import QUICKLY


class StateProcess:
    """A process made by :class:`pmgp.gp.Markov`, at times X (n, 1); its parameters depend on the variables `theta`.

    `sources` are the model's data of which the times are made, and `inputs` those that are the times themselves.
    """

    def __init__(self, f: TensorVariable, theta: list[TensorVariable]) -> None:
        self.theta = theta
        self._parts = f.owner.op.parts
        mean, times, *kernel = process_of(f)
        self.sources = [variable for variable in ancestors([times]) if isinstance(variable, SharedVariable)]
        self.X = np.asarray(times.eval(), dtype=float)[:, None]
        # Where they are a function of data, new times stand for the times, and not for the data.
        self.inputs = [data for data in self.sources if np.array_equal(np.ravel(data.get_value()), self.X[:, 0])]
        together, values = pt.vector("times", dtype="float64"), [rv.type() for rv in theta]
        replacements: dict[Any, Any] = {times: together, **dict(zip(theta, values, strict=True))}
        graphs = clone_replace([mean, *kernel], replacements, rebuild_strict=False)
        self._moments = compile_pytensor([together, *values], graphs, mode=QUICKLY, on_unused_input="ignore")

    @property
    def size(self) -> int:
        """The length of f."""
        return len(self.X)

    @staticmethod
    def block_size(number: int) -> int:
        """Return how many of a number of new times to handle at once, which is all of them."""
        return number

    def compile(self, Xnew: np.ndarray, theta: list[np.ndarray]) -> None:
        """Do nothing, since nothing is left to compile."""

    def given_theta(self, theta: list[np.ndarray], Xnew: np.ndarray, block_size: int) -> StateConditional:
        """Return the process at one theta and the new times."""
        times = np.concatenate([self.X[:, 0], Xnew[:, 0]])
        mean, *kernel = self._moments(times, *theta)
        return StateConditional(self.size, Times(times), lines_of(self._parts, *kernel), np.asarray(mean))


class StateConditional:
    """The process at one theta.

    The old times come first.
    """

    def __init__(self, size: int, times: Times, lines: list[Line], mean: np.ndarray) -> None:
        self._size, self._mean = size, mean
        self._pattern = StatePattern.of(times, lines)
        self._times, self._lines = times, lines

    @cached_property
    def _values(self) -> np.ndarray:
        return transitions(self._times, self._lines)

    def whiten(self, f: np.ndarray) -> np.ndarray:
        """Return draws of f minus their mean, (k, n) -> (n + m, k), NaN at the new times: states need no more."""
        out = np.full((len(self._mean), len(f)), np.nan)
        out[: self._size] = (f - self._mean[: self._size]).T
        return out

    def pointwise(self, deviations: np.ndarray) -> list[tuple[slice, np.ndarray, np.ndarray]]:
        """Return mean and variance at the new times, as one block: arrays of shapes (k, m) and (m,)."""
        found = [self._pattern.moments_given(self._values, one) for one in deviations.T]
        means = self._mean + self._pattern.observe(np.array([mean for mean, _ in found]))
        variance = self._pattern.site_variances(found[0][1][None])
        # Rounding may leave a variance below zero where the value is known.
        new = slice(0, len(self._mean) - self._size)
        return [(new, means[:, self._size :], np.maximum(variance[self._size :], 0.0))]

    def jointly(self, rng: np.random.Generator, deviations: np.ndarray) -> np.ndarray:
        """Draw whole paths at the new times: (k, m)."""
        paths = [sample_path(rng, self._pattern, self._values, one) for one in deviations.T]
        return (self._mean + np.array(paths))[:, self._size :]
