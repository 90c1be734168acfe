"""The draws that a user hands over, checked before they are used."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile import SharedVariable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorVariable

from pmgp.core.numerics.arrays import is_whole
from pmgp.interface.model.labels import in_order_of


def posterior_of(
    idata: Any,
    needed: Collection[TensorVariable],
    model: pm.Model,
    *,
    growing: Collection[TensorVariable] = (),
    weights: bool = False,
) -> xr.Dataset:
    """Return the group "posterior", which must contain the variables `needed`, with labels in the model's order.

    The variables in `growing` may have new labels in the model, and another order.

    Raises
    ------
    ValueError
        If `idata` has no such group, if it lacks variables, labels, or the dimensions of chains and draws, or, unless
        `weights`, if the draws have weights.
    """
    try:
        posterior = idata["posterior"].to_dataset()
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(
            f"an object of type {type(idata).__name__} has no group 'posterior': give the draws that pmgp.sample or "
            "pymc.sample returned"
        ) from error
    missing = [str(variable.name) for variable in needed if variable.name not in posterior]
    if missing:
        raise ValueError(
            f"the posterior has no draws of {', '.join(missing)}: sample this model, with all variables in the trace"
        )
    if not {"chain", "draw"} <= set(posterior.sizes):
        found = ", ".join(map(repr, posterior.sizes)) or "none"
        raise ValueError(
            f"the posterior must have the dimensions 'chain' and 'draw'; it has {found}. Select one chain with a list, "
            "as in idata.sel(chain=[0])"
        )
    if not posterior.sizes["chain"] * posterior.sizes["draw"]:
        raise ValueError("the posterior has no draws: the selection left none of them")
    if not weights and "sample_stats" in idata and "log_weight" in idata["sample_stats"]:
        raise ValueError(
            'the draws have weights, sample_stats["log_weight"], and this is a plain average over draws: let '
            "pmgp.marginal.correct draw by weight, as it does unless resample=False"
        )
    return in_order_of(model, posterior, [rv for rv in needed if rv not in growing])


def check_draws(draws: Any) -> None:
    """Refuse a number of draws to take that is neither a positive integer nor None."""
    if draws is not None and not is_whole(draws):
        raise ValueError(f"draws must be an integer of at least 1, or None for all, not {draws}")


def rows_of(posterior: xr.Dataset, name: str) -> np.ndarray:
    """Return the draws of a variable, chain by chain: (draws, ...)."""
    values = posterior[name].transpose("chain", "draw", ...).to_numpy()
    return values.reshape(-1, *values.shape[2:])


def check_inputs_continued(idata: Any, process: TensorVariable) -> None:
    """Refuse data of a process that do not begin with those with which the draws were made, as far as these are stored.

    Later rows are new inputs.
    """
    for name, drawn, present in _stored(idata, ancestors([process])):
        if not _equal(drawn, present[: len(drawn)] if drawn.ndim and present.ndim else present):
            raise ValueError(
                f"the model's {name!r} does not begin with the values that it had when these draws of {process.name!r} "
                "were made: keep these rows, and add new ones after them"
            )


def check_inputs_unchanged(idata: Any, inputs: list[Any]) -> None:
    """Refuse draws that were made with other inputs than the model's present ones, as far as these were stored."""
    for name, drawn, present in _stored(idata, inputs):
        if not _equal(drawn, present):
            raise ValueError(
                f"the model's {name!r} has other values than when these draws were made: restore them with "
                "pymc.set_data; the inputs of predictions are Xnew"
            )


def _stored(idata: Any, variables: Iterable[Any]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield the name of data, the values with which draws were made, and the present ones.

    Data without a name, and constants, cannot have been set.
    """
    stored = idata.get("constant_data", {})
    for variable in variables:
        if isinstance(variable, SharedVariable) and str(variable.name) in stored:
            yield str(variable.name), stored[str(variable.name)].to_numpy(), variable.get_value(borrow=True)


def _equal(drawn: np.ndarray, present: np.ndarray) -> bool:
    return drawn.shape == present.shape and np.allclose(drawn, present)
