"""Matern processes in time as a random variable of PyMC: draws and density in O(n), by the states of the process."""

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

from pmgp.core.markov import StatePattern, Times, log_density, sample_path, transitions

__all__ = ["MarkovProcessRV"]


class MarkovProcessRV(RandomVariable):
    """A sum of independent Matern processes at given times, in any order.

    Its parameters are the mean and the times, (n,) each, and the length-scales and variances of the parts, (k,) each.

    Parameters
    ----------
    orders : tuple of float
        Of the parts: 1/2, 3/2 or 5/2.
    """

    name = "markov_process"
    signature = "(n),(n),(k),(k)->(n)"
    dtype = "float64"
    _print_name = ("Markov", "\\operatorname{Markov}")
    __props__ = (*RandomVariable.__props__, "orders")

    def __init__(self, orders: tuple[float, ...], **kwargs: Any) -> None:
        self.orders = orders
        super().__init__(**kwargs)

    def rng_fn(self, rng: np.random.Generator, *parameters: Any) -> np.ndarray:
        """Draw the process: (*size, n)."""
        mean, moments, lengthscales, variances, size = parameters
        times = Times(moments)
        pattern = StatePattern.of(times, self.orders)
        values = transitions(times, self.orders, lengthscales, variances)
        shape = () if size is None else tuple(np.atleast_1d(size))
        draws = [mean + sample_path(rng, pattern, values) for _ in range(int(np.prod(shape, dtype=int)))]
        return np.reshape(draws, (*shape, len(mean)))


class _Density(Op):
    """Log density of a sum of Matern processes with respect to the values at distinct times."""

    __props__ = ("orders",)

    def __init__(self, orders: tuple[float, ...]) -> None:
        self.orders = orders

    def make_node(self, *inputs: Any) -> Apply:
        """Take values, mean, times, length-scales and variances."""
        return Apply(self, [pt.as_tensor(one) for one in inputs], [pt.dscalar()])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: list[list[Any]]) -> None:
        """Compute the density; a process that differs from itself at one time has none."""
        value, mean, moments, lengthscales, variances = inputs
        times, deviations = Times(moments), value - mean
        distinct = deviations[times.first]
        found = -np.inf
        if np.allclose(distinct[times.where], deviations, rtol=1e-6, atol=1e-6):
            values = transitions(times, self.orders, lengthscales, variances)
            density = log_density(values, self.orders, distinct)
            found = -np.inf if np.isnan(density) else density
        output_storage[0][0] = np.asarray(found)

    def pullback(self, *arguments: Any) -> NoReturn:
        """Refuse to give a gradient.

        Raises
        ------
        NotImplementedError
        """
        raise NotImplementedError(
            "the density of a process in time is given without gradient: sample with step=pmgp.PseudoMarginal(), which "
            "integrates the process out"
        )

    L_op = pullback


@_logprob.register(MarkovProcessRV)
def markov_process_logprob(op: MarkovProcessRV, values: Sequence[Any], *inputs: Any, **kwargs: Any) -> TensorVariable:
    """Log density, for `pymc.logp`."""
    return _Density(op.orders)(*values, *inputs[2:])


@_support_point.register(MarkovProcessRV)
def markov_process_support_point(op: MarkovProcessRV, rv: Any, rng: Any, size: Any, mean: Any, *_: Any) -> Any:
    """The mean."""
    return mean
