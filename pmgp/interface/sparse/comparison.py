"""The approximation beside the exact chain: hyper-parameters of both, with their Monte Carlo errors."""

from __future__ import annotations

from typing import Any

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pmgp.interface.sparse.process import Sparse
from pmgp.interface.steps import PseudoMarginal

# Points that the exact chain is run for.
LARGEST = 2000


def compare_with_exact(idata: Any, process: Sparse, *, model: pm.Model | None = None, **settings: Any) -> pd.DataFrame:
    """Sample the model that the inducing inputs stand for, and say how far the hyper-parameters are from it.

    The exact chain is that of :class:`pmgp.PseudoMarginal`, and takes minutes for a thousand points.

    Parameters
    ----------
    idata : xarray.DataTree
        Draws of the model on inducing inputs.
    process : Sparse
    model : pymc.Model, optional
    **settings
        Of `pymc.sample`, such as ``draws``, ``chains`` and ``random_seed``.

    Returns
    -------
    pandas.DataFrame
        A row for each element of the hyper-parameters: ``mean`` and ``sd`` of the approximation, ``exact_mean`` and
        ``exact_sd``, ``shift``, the difference of the means in exact standard deviations, and ``error``, the Monte
        Carlo standard error of that.

    Raises
    ------
    ValueError
        If there are more than 2,000 points.
    ModelError
        As of :meth:`Sparse.exact_model`.
    """
    model = pm.modelcontext(model)
    points = process.points
    if points > LARGEST:
        raise ValueError(f"there are {points} points, and the exact chain is for up to {LARGEST}: compare on fewer")
    with process.exact_model(model=model):
        exact = pm.sample(step=PseudoMarginal(), **settings)
    names = [rv.name for rv in model.free_RVs if rv is not process.whitened]
    found, true = (az.summary(part, var_names=names, kind="all", round_to="none") for part in (idata, exact))
    table = pd.DataFrame({"mean": found["mean"], "sd": found["sd"], "exact_mean": true["mean"], "exact_sd": true["sd"]})
    table["shift"] = (table["mean"] - table["exact_mean"]) / table["exact_sd"]
    table["error"] = np.hypot(found["mcse_mean"], true["mcse_mean"]) / table["exact_sd"]
    return table
