"""The Gaussian that chains of a process on inducing inputs start from, if nobody says where they do.

From the prior's center a short chain spends its tuning on the way to the posterior, and learns proposals on that way.
"""

from __future__ import annotations

import logging
from typing import cast

import pymc as pm
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pytensor.gradient import NullTypeGradError

from pmgp.interface.model.inducing_process import inducing_process
from pmgp.interface.sparse import OptimizedInducing, Sparse, SparseGibbs, optimize_inducing

__all__ = ["fitted_gaussian", "follow"]

_log = logging.getLogger("pymc.pmgp")

# Of each of two stages. The last of them change a start by less than its draws differ.
ITERATIONS = 100


def fitted_gaussian(model: pm.Model, *, progressbar: bool, quiet: bool) -> OptimizedInducing | None:
    """The Gaussian of the whitened values, and hyper-parameters, where its bound is largest.

    Parameters
    ----------
    model : pymc.Model
    progressbar, quiet : bool
        Whether the optimization is shown, and whether nothing is logged.

    Returns
    -------
    OptimizedInducing or None
        None where the model has no process on inducing inputs, or where the bound cannot be optimized, of which a
        warning tells the reason.
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
    return found


def follow(step: BlockedStep | CompoundStep, found: OptimizedInducing, model: pm.Model) -> None:
    """Let a step method for several outputs follow the Gaussian: for classes a search for modes ends anywhere.

    Parameters
    ----------
    step : step method
        Those of other kinds, and of one output, stay as they are.
    found : OptimizedInducing
    model : pymc.Model
    """
    for method in step.methods if isinstance(step, CompoundStep) else [step]:
        if found.several and isinstance(method, SparseGibbs):
            method.follow(found, model)
