"""Processes in time as random variables of PyMC: the states of the process give draws and densities in O(n)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.distribution import _support_point
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorVariable

from pmgp.core.markov import Part, StatePattern, Times, lines_of, log_density, sample_path, transitions


class MarkovProcessRV(RandomVariable):
    """A sum of independent processes at given times, in any order.

    Its parameters are the mean and the times, (n,) each, the length-scales and variances of the parts, (k,) each, and
    the periods and length-scales of the parts' factors, (p,) each.
    """

    name = "markov_process"
    signature = "(n),(n),(k),(k),(p),(p)->(n)"
    dtype = "float64"
    _print_name = ("Markov", "\\operatorname{Markov}")
    __props__ = (*RandomVariable.__props__, "parts")

    def __init__(self, parts: tuple[Part, ...], **kwargs: Any) -> None:
        self.parts = parts
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, *parameters: Any) -> np.ndarray:
        """Draw the process: (*size, n)."""
        mean, times, *kernel, size = parameters
        return _drawn(rng, self.parts, (np.full(len(mean), np.nan), mean, times, *kernel), size)


class MarkovConditionalRV(RandomVariable):
    """A sum of independent processes at new times, given its values at other times.

    Its parameters are the values, means and times where it is known, (n,) each, the means and times where it is not,
    (m,) each, and the parameters of the kernel.
    """

    name = "markov_conditional"
    signature = "(n),(n),(n),(m),(m),(k),(k),(p),(p)->(m)"
    dtype = "float64"
    _print_name = ("MarkovConditional", "\\operatorname{MarkovConditional}")
    __props__ = (*RandomVariable.__props__, "parts")

    def __init__(self, parts: tuple[Part, ...], **kwargs: Any) -> None:
        self.parts = parts
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, *parameters: Any) -> np.ndarray:
        """Draw the process at the new times: (*size, m)."""
        *given, size = parameters
        new = len(given[3])
        return _drawn(rng, self.parts, _together(np.full(new, np.nan), *given), size)[..., -new:]


def _together(new: Any, value: Any, mean: Any, times: Any, new_mean: Any, new_times: Any, *kernel: Any) -> list[Any]:
    """Return values, mean and times at old and new times, and the parameters of the kernel."""
    pairs = (value, new), (mean, new_mean), (times, new_times)
    return [*map(np.concatenate, pairs), *kernel]


def _drawn(rng: np.random.Generator, parts: tuple[Part, ...], parameters: Sequence[Any], size: Any) -> np.ndarray:
    """Draw the process given the values that are not NaN: (*size, n)."""
    value, mean, moments, *kernel = parameters
    times, lines = Times(moments), lines_of(parts, *kernel)
    pattern, values = StatePattern.of(times, lines), transitions(times, lines)
    shape = () if size is None else tuple(np.atleast_1d(size))
    draws = [mean + sample_path(rng, pattern, values, value - mean) for _ in range(int(np.prod(shape, dtype=int)))]
    return np.reshape(draws, (*shape, len(mean)))


class _Density(Op):
    """The log density of a process with respect to the values at distinct times."""

    __props__ = ("parts",)

    def __init__(self, parts: tuple[Part, ...]) -> None:
        self.parts = parts

    def make_node(self, *inputs: Any) -> Apply:
        """Take values, mean, times, and the parameters of the kernel."""
        return Apply(self, [pt.as_tensor(one) for one in inputs], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Compute the density, which is zero if the process has different values at one time."""
        value, mean, moments, *kernel = inputs
        times, deviations = Times(moments), value - mean
        distinct = deviations[times.first]
        found = -np.inf
        if np.allclose(distinct[times.where], deviations, rtol=1e-6, atol=1e-6 * np.abs(deviations).max(initial=0.0)):
            lines = lines_of(self.parts, *kernel)
            density = log_density(transitions(times, lines), lines, distinct)
            found = -np.inf if np.isnan(density) else density
        output_storage[0][0] = np.asarray(found)

    def pullback(self, *arguments: Any) -> NoReturn:
        """Refuse to give a gradient."""
        raise NotImplementedError(
            "the density of a process in time has no gradient: sample with step=pmgp.PseudoMarginal(), which "
            "integrates the process out"
        )

    L_op = pullback


@_logprob.register(MarkovProcessRV)
def markov_process_logprob(op: MarkovProcessRV, values: Sequence[Any], *inputs: Any, **kwargs: Any) -> TensorVariable:
    """Return the log density, for `pymc.logp`."""
    return _Density(op.parts)(*values, *inputs[2:])


@_logprob.register(MarkovConditionalRV)
def markov_conditional_logprob(
    op: MarkovConditionalRV, values: Sequence[Any], *inputs: Any, **kwargs: Any
) -> TensorVariable:
    """Return the log density of old and new values together minus that of the old values."""
    value, mean, times, new_mean, new_times, *kernel = inputs[2:]
    pairs = (value, *values), (mean, new_mean), (times, new_times)
    density = _Density(op.parts)
    return density(*map(pt.concatenate, pairs), *kernel) - density(value, mean, times, *kernel)


@_support_point.register(MarkovProcessRV)
def markov_process_support_point(op: MarkovProcessRV, rv: Any, rng: Any, size: Any, mean: Any, *_: Any) -> Any:
    """Return the mean."""
    return mean


@_support_point.register(MarkovConditionalRV)
def markov_conditional_support_point(op: MarkovConditionalRV, rv: Any, rng: Any, size: Any, *parameters: Any) -> Any:
    """Return the process's own mean at the new times."""
    return parameters[3]
