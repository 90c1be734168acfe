"""Evaluation of a model's graphs at posterior draws, one after another, without compilation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.replace import clone_replace
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.numerical import NumericalFunction
from pmgp.interface.model.inducing_process import sampled_variables
from pmgp.interface.model.posterior import posterior_of


def spaced_draws(idata: Any, model: pm.Model, number: int | None) -> list[dict[str, np.ndarray]]:
    """Return values of the sampled variables at draws that are evenly spaced over all chains, or at all draws."""
    if number is not None and number < 1:
        raise ValueError(f"draws must be at least 1, not {number}")
    variables = sampled_variables(model)
    names = [rv.name for rv in variables]
    posterior = posterior_of(idata, variables, model)
    arrays = {name: posterior[name].values.reshape(-1, *posterior[name].shape[2:]) for name in names}
    total = posterior.sizes["chain"] * posterior.sizes["draw"]
    chosen = np.unique(np.linspace(0, total - 1, min(total if number is None else int(number), total)).astype(int))
    return [{name: arrays[name][index] for name in names} for index in chosen]


def at_draws(
    draws: list[dict[str, np.ndarray]], model: pm.Model, outputs: list[TensorVariable]
) -> Iterator[list[np.ndarray]]:
    """Yield, for each draw, the values of graphs that depend on the model's random variables."""
    symbols = {rv: rv.type() for rv in sampled_variables(model)}
    graphs = clone_replace(outputs, symbols, rebuild_strict=False)
    function = NumericalFunction(list(symbols.values()), graphs)
    for draw in draws:
        yield function(*[draw[rv.name] for rv in symbols])
