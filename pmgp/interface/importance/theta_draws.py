"""Draws of theta from a posterior, on the unconstrained scale."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.pytensorf import compile as compile_pytensor
from pymc.pytensorf import replace_vars_in_graphs
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.graphs.compilation import INTERPRETED
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.model.posterior import check_draws, posterior_of, rows_of


def some_draws(
    idata: Any,
    needed: list[TensorVariable],
    model: pm.Model,
    draws: int | None,
    growing: Collection[TensorVariable] = (),
) -> xr.Dataset:
    """Return the posterior's draws, or at most `draws` of them: evenly spaced, and the same from each chain.

    It must contain the variables `needed`, of which those in `growing` may have new labels; see `posterior_of`.
    """
    check_draws(draws)
    posterior = posterior_of(idata, needed, model, growing=growing)
    if draws is None:
        return posterior
    chains, length = min(posterior.sizes["chain"], draws), posterior.sizes["draw"]
    chosen = np.linspace(0, length - 1, min(length, draws // chains)).round().astype(int)
    return posterior.isel(chain=slice(0, chains), draw=chosen)


def theta_draws(posterior: xr.Dataset, model: pm.Model, latents: list[TensorVariable]) -> np.ndarray:
    """Return theta as one vector for each draw, chain by chain: (draws, dimension); see `LatentGaussianModel.ravel`.

    `latents`, the variables of f, are left out.

    Raises
    ------
    ValueError
        For draws of another shape than the model has, and for draws that the prior excludes or that are not numbers.
    """
    variables = hyperparameters(model, latents)
    if not variables:
        return np.empty((posterior.sizes["chain"] * posterior.sizes["draw"], 0))
    inputs = [rv.type(name=rv.name) for rv in variables]
    outputs = replace_vars_in_graphs(transformed(model, variables), dict(zip(variables, inputs, strict=True)))
    function = compile_pytensor(inputs, outputs, on_unused_input="ignore", mode=INTERPRETED)
    shapes = model.eval_rv_shapes()
    values = [rows_of(posterior, rv.name).astype(rv.dtype) for rv in variables]
    for rv, found in zip(variables, values, strict=True):
        _check_shape(rv, found, shapes[rv.name])
    rows = [function(*row) for row in zip(*values, strict=True)]
    for rv, draws in zip(variables, zip(*rows, strict=True), strict=True):
        _refuse_not_finite(f"{rv.name!r} are not numbers, or outside the support of its prior", draws)
    return np.array([np.concatenate([np.ravel(v) for v in row]) for row in rows])


def _check_shape(rv: TensorVariable, rows: np.ndarray, shape: tuple[int, ...]) -> None:
    if rows.shape[1:] != tuple(shape):
        raise ValueError(
            f"the posterior has draws of {rv.name!r} of shape {rows.shape[1:]}, but the model's has shape "
            f"{tuple(shape)}: give draws of this model, with the data that they were made with"
        )


def _refuse_not_finite(what: str, rows: Iterable[np.ndarray]) -> None:
    finite = np.array([np.isfinite(row).all() for row in rows])
    if not finite.all():
        raise ValueError(
            f"{np.sum(~finite)} of {len(finite)} draws of {what}, the first of them in place {np.argmin(finite)}, "
            "chain by chain"
        )


def transformed(model: pm.Model, variables: list[TensorVariable]) -> list[TensorVariable]:
    """Return variables as graphs on the unconstrained scale."""
    transforms = [model.rvs_to_transforms[rv] for rv in variables]
    return [
        rv if transform is None else transform.forward(rv, *rv.owner.inputs)
        for rv, transform in zip(variables, transforms, strict=True)
    ]


def latent_draws(
    posterior: xr.Dataset,
    model: pm.Model,
    latents: list[TensorVariable],
    parts: LatentGaussianModel,
    theta: np.ndarray,
) -> np.ndarray:
    """Return the draws of f: (draws, n), chain by chain."""
    shapes = model.eval_rv_shapes()
    rows = [rows_of(posterior, rv.name).astype(rv.dtype) for rv in latents]
    for rv, found in zip(latents, rows, strict=True):
        size = int(np.prod(shapes[rv.name]))
        if found[0].size != size:
            raise ValueError(
                f"the posterior has {found[0].size} values of {rv.name!r}, but the model has {size} of them: "
                "restore the data that the draws were made with"
            )
        _refuse_not_finite(f"{rv.name!r} are not finite", found)
    names = [rv.name for rv in latents]
    points = [dict(zip(names, each, strict=True)) for each in zip(*rows, strict=True)]
    return np.array([parts.ravel_latent(point | parts.unravel(at)) for point, at in zip(points, theta, strict=True)])
