"""Draws of f and theta from a posterior, grouped by equal theta."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.model.posterior import check_draws, posterior_of, rows_of
from pmgp.interface.prediction.latent_rows import LatentRows


@dataclass
class Draws:
    """Some draws of a posterior: f (C, draws, n), and theta as a list for each draw."""

    f: np.ndarray
    theta: list[list[np.ndarray]]

    def grouped(self, places: list[int]) -> list[np.ndarray]:
        """Return indices of draws, grouped by equal values of some variables of theta, as after rejected proposals."""
        groups: dict[bytes, list[int]] = {}
        for index, values in enumerate(self.theta):
            groups.setdefault(b"".join(values[place].tobytes() for place in places), []).append(index)
        return [np.array(indices) for indices in groups.values()]


def checked_posterior(idata: Any, rows: LatentRows, theta: list[TensorVariable], model: pm.Model) -> xr.Dataset:
    """Return the posterior; refuse one that lacks variables, or has a different number of latent values."""
    posterior = posterior_of(idata, [*rows.drawn, *theta], model)
    for name in map(str, [variable.name for variable in rows.drawn]):
        length = posterior[name].transpose("chain", "draw", ...).shape[-1]
        if length != rows.size:
            raise ValueError(
                f"the posterior has {length} values of {name!r}, but the model has {rows.size} inputs: "
                "restore the data that the draws were made with"
            )
    return posterior


def evenly_spaced(
    posterior: xr.Dataset, rows: LatentRows, theta: list[TensorVariable], draws: int | None, by_chain: bool = False
) -> tuple[Draws, dict[str, np.ndarray]]:
    """Return at most `draws` draws, evenly spaced over all chains, and their coordinates "chain" and "draw".

    With `by_chain`, the same draws of each chain are taken, so that they fill a table; if there are more chains than
    `draws`, some are left out.
    """
    check_draws(draws)
    chains, length = posterior.sizes["chain"], posterior.sizes["draw"]
    if by_chain:
        chains = chains if draws is None else min(chains, draws)
        each = _spaced(length, None if draws is None else draws // chains)
        chosen = (np.arange(chains)[:, None] * length + each).ravel()
    else:
        each, chosen = np.arange(length), _spaced(chains * length, draws)
    found = [rows_of(posterior, v.name)[chosen].astype(v.dtype) for v in (*rows.drawn, *theta)]
    number = len(rows.drawn)
    values = found[number:]
    if rows.observed is None:
        f = rows.stack(found[:number])
    else:
        f = np.broadcast_to(rows.observed, (1, len(chosen), rows.size))
    coordinates = {"chain": posterior["chain"].to_numpy()[:chains], "draw": posterior["draw"].to_numpy()[each]}
    return Draws(
        f, [[np.asarray(value) for value in row] for row in zip(*values, strict=True)] or [[]] * len(chosen)
    ), coordinates


def _spaced(total: int, number: int | None) -> np.ndarray:
    number = total if number is None else min(number, total)
    return np.linspace(0, total - 1, number).round().astype(int)
