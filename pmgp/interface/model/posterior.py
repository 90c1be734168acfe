"""The draws that a user hands over, checked before they are used."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import xarray as xr
from pytensor.tensor.variable import TensorVariable


def posterior_of(idata: Any, needed: Iterable[TensorVariable], *, weights: bool = False) -> xr.Dataset:
    """Return the group "posterior", which must contain the variables `needed`.

    Raises
    ------
    ValueError
        If `idata` has no such group, if it lacks variables, or, unless `weights`, if the draws have weights.
    """
    try:
        posterior = idata["posterior"].to_dataset()
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"an object of type {type(idata).__name__} has no group 'posterior': give the draws that pmgp.sample or "
            "pymc.sample returned"
        ) from error
    missing = [str(variable.name) for variable in needed if variable.name not in posterior]
    if missing:
        raise ValueError(
            f"the posterior has no draws of {', '.join(missing)}: sample this model, with all variables in the trace"
        )
    if not weights and "sample_stats" in idata and "log_weight" in idata["sample_stats"]:
        raise ValueError(
            'the draws have weights, sample_stats["log_weight"], and this is a plain average over draws: let '
            "pmgp.marginal.correct draw by weight, as it does unless resample=False"
        )
    return posterior
