"""A comparison of the approximation with the exact chain: hyper-parameters of both, with their Monte Carlo errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm

from pmgp.interface.model.context import current_model
from pmgp.interface.model.inducing_process import sampled_variables
from pmgp.interface.sampling.run import sample
from pmgp.interface.sparse.process import Sparse
from pmgp.interface.steps import PseudoMarginal

# The largest number of points for which the exact chain is run.
LARGEST = 2000


def compare_with_exact(idata: Any, process: Sparse, *, model: pm.Model | None = None, **settings: Any) -> pd.DataFrame:
    """Sample the exact model, and compare its hyper-parameters with those of the approximation on inducing inputs.

    The exact chain uses :class:`pmgp.PseudoMarginal`, and takes minutes for a thousand points.

    Parameters
    ----------
    idata : xarray.DataTree
        Draws from the model on inducing inputs.
    process : Sparse
    model : pymc.Model, optional
    **settings
        Arguments of :func:`pmgp.sample` for the exact chain, such as ``draws``, ``chains``, ``random_seed``, and
        ``executor`` for chains on workers.

    Returns
    -------
    pandas.DataFrame
        A row for each element of the hyper-parameters: the approximation's ``mean`` and ``sd``, ``exact_mean`` and
        ``exact_sd``, ``shift``, the difference of the means in exact standard deviations, and ``error``, the Monte
        Carlo standard error of that shift.

    Raises
    ------
    ValueError
        If there are more than 2,000 points.
    ModelError
        If :meth:`Sparse.exact_model` refuses the model.
    """
    import arviz_stats

    model = current_model(model)
    points = process.points
    if points > LARGEST:
        raise ValueError(f"there are {points} points, and the exact chain is for up to {LARGEST}: compare on fewer")
    whole = process.exact_model(model=model)
    exact = sample(whole, step=PseudoMarginal(model=whole), **settings)
    names = [rv.name for rv in sampled_variables(model) if rv is not process.whitened]
    found, true = (arviz_stats.summary(part, var_names=names, kind="all", round_to="none") for part in (idata, exact))
    table = pd.DataFrame({"mean": found["mean"], "sd": found["sd"], "exact_mean": true["mean"], "exact_sd": true["sd"]})
    table["shift"] = (table["mean"] - table["exact_mean"]) / table["exact_sd"]
    table["error"] = np.hypot(found["mcse_mean"], true["mcse_mean"]) / table["exact_sd"]
    return table
