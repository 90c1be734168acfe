"""The labels of a model's dimensions: those of categories, and those that decide which draws belong to an element."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr
from pytensor.tensor.variable import TensorVariable


def category_names(model: pm.Model, latents: list[TensorVariable], number: int) -> list[Any]:
    """Return names of categories, or numbers.

    They are the coordinates of `category`, of the rows of a latent matrix, or, for a list of latent vectors, one for
    each category, of `class`. With fewer vectors, as for an order, a dimension `class` may be something else.
    """
    dims: list[Sequence[Any]] = [model.named_vars_to_dims.get(str(latent.name)) or () for latent in latents]
    rows = [each[0] for each in dims if len(each) == 2]
    for dimension in ("category", *rows, *(["class"] if len(latents) == number else [])):
        names = list(model.coords.get(str(dimension)) or ())
        if len(names) == number:
            return names
    return list(range(number))


def places_of_labels(model: pm.Model, dim: str | None, drawn: xr.DataArray, axis: str) -> np.ndarray | None:
    """Return the place of each label of a dimension along an axis of draws, or -1 for a new one.

    It is None if one of them has no labels, or the same label twice.
    """
    now = None if dim is None else model.coords.get(dim)
    # Without coordinates of their own, draws are numbered, which is no label.
    if now is None or axis != dim or axis not in drawn.coords:
        return None
    known = drawn[axis].to_index()
    if len(set(now)) != len(now) or not known.is_unique:
        return None
    # As xarray stores labels, which may be dates.
    new = xr.DataArray(list(now), coords={"label": list(now)}, dims="label")["label"].to_index()
    places = known.get_indexer(new)
    _refuse_other_type(str(dim), new[places < 0], known)
    return places


def in_order_of(model: pm.Model, posterior: xr.Dataset, variables: Collection[TensorVariable]) -> xr.Dataset:
    """Return a posterior whose labels are in the order of the model's, and without others.

    Raises
    ------
    ValueError
        If the model has labels at which variables have no draws.
    """
    # A part of a multivariate variable would not have the whole one's posterior.
    whole = {axis for rv in variables if rv.owner.op.ndim_supp > 0 for axis in posterior[rv.name].dims}
    for rv in variables:
        drawn, dims = posterior[rv.name], model.named_vars_to_dims.get(rv.name, ())
        for dim, axis in zip(dims, [one for one in drawn.dims if one not in ("chain", "draw")], strict=False):
            places = places_of_labels(model, dim, drawn, str(axis))
            if places is None or np.array_equal(places, np.arange(drawn.sizes[axis])):
                continue
            if axis in whole and len(places) != drawn.sizes[axis]:
                continue
            if (places < 0).any():
                _refuse_new(rv, str(dim), model.coords[dim][int(np.argmin(places))])
            posterior = posterior.isel({axis: places})
    return posterior


def _refuse_new(rv: TensorVariable, dim: str, label: object) -> None:
    if rv.owner.op.ndim_supp > 0:
        remedy = "restore the data that the draws were made with"
    else:
        remedy = (
            "give the model the labels of the draws, as hyper-parameters are not drawn anew. Only an effect whose "
            f"scale is a hyper-parameter, as in pm.Normal('u', 0, scale, dims={dim!r}), has its prior at new labels"
        )
    raise ValueError(f"the posterior has no draws of {rv.name!r} at {label} of {dim!r}: {remedy}")


def _refuse_other_type(dim: str, new: pd.Index, known: pd.Index) -> None:
    """Refuse labels that are new only because they are, say, text here and numbers in the posterior."""
    written = {str(label): label for label in known}
    alike = [label for label in new if str(label) in written]
    if alike:
        there = written[str(alike[0])]
        raise ValueError(
            f"the coordinates of {dim!r} have {alike[0]!r} in the model and {there!r} in the posterior, of the types "
            f"{type(alike[0]).__name__} and {type(there).__name__}: build the model with labels of one type"
        )
