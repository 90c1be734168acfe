"""Pointwise log predictive densities at draws: log E p(y|f), which differs from the model's own log-density."""

from __future__ import annotations

from typing import Any

import pymc as pm
from pymc.backends.arviz import apply_function_over_dataset, coords_and_dims_for_inferencedata
from pytensor.tensor.variable import TensorVariable

from pmgp.interface.sparse.likelihood import LatentLikelihood


def extend_with_log_likelihood(
    idata: Any,
    model: pm.Model,
    observations: dict[str, tuple[LatentLikelihood, list[TensorVariable]]],
    *,
    progressbar: bool,
    compile_kwargs: dict[str, Any] | None,
) -> Any:
    """Put log E p(y|f) of each observation at each draw into the group ``log_likelihood``."""
    expected = [
        likelihood.log_expected(model.rvs_to_values[model[name]], *arguments)
        for name, (likelihood, arguments) in observations.items()
    ]
    function = model.compile_fn(
        inputs=model.free_RVs, outs=expected, on_unused_input="ignore", **(compile_kwargs or {})
    )
    coords, dims = coords_and_dims_for_inferencedata(model)
    idata["log_likelihood"] = apply_function_over_dataset(
        function,
        idata["posterior"].to_dataset()[[rv.name for rv in model.free_RVs]],
        output_var_names=list(observations),
        dims=dims,
        coords=coords,
        progressbar=progressbar,
    )
    return idata
