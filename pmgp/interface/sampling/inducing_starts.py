"""Where chains of a process on inducing inputs start, if nobody says so: draws of a fitted Gaussian.

From the prior's center a short chain spends its tuning on the way to the posterior, and learns proposals on that way.
"""

from __future__ import annotations

import logging
from typing import cast

import numpy as np
import pymc as pm
from pytensor.gradient import NullTypeGradError

from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.sparse import Sparse, optimize_inducing

__all__ = ["inducing_starts"]

_log = logging.getLogger("pymc.pmgp")

# Of each of two stages. The last of them change a start by less than its draws differ.
ITERATIONS = 100


def inducing_starts(
    model: pm.Model, chains: int, rng: np.random.Generator, *, progressbar: bool, quiet: bool
) -> list[dict[str, np.ndarray]] | None:
    """Whitened values drawn from a Gaussian for each chain, and hyper-parameters where its bound is largest.

    Parameters
    ----------
    model : pymc.Model
    chains : int
    rng : numpy.random.Generator
    progressbar, quiet : bool
        Whether the optimization is shown, and whether nothing is logged.

    Returns
    -------
    list of dict, or None
        As ``initvals``, for each chain; None where the model has no process on inducing inputs, or where the bound
        cannot be optimized, of which a warning tells the reason.
    """
    try:
        process = inducing_process(model)
        if process is None:
            return None
        found = optimize_inducing(
            cast(Sparse, process), model=model, inducing=False, max_iterations=ITERATIONS, progressbar=progressbar
        )
    except (ValueError, NotImplementedError, NullTypeGradError) as error:
        if not quiet:
            _log.warning(f"Chains start from the model's own initial point, and not near the posterior: {error}")
        return None
    if not quiet:
        _log.info(
            "Chains start from draws of a Gaussian for the inducing values, fitted together with the hyper-parameters; "
            "initvals={} takes the model's own initial point"
        )
    return found.initvals(chains, rng)
