"""The Gaussian from which chains of a process on inducing inputs start by default.

From the prior's center a short chain would spend its tuning on the way to the posterior, and fit its proposals to that.
"""

from __future__ import annotations

import logging
from typing import cast

import pymc as pm
from pymc.step_methods.compound import BlockedStep, CompoundStep
from pytensor.gradient import NullTypeGradError

from pmgp.interface.model.inducing_process import inducing_processes
from pmgp.interface.sparse import OptimizedInducing, Sparse, SparseGibbs, optimize_inducing

_log = logging.getLogger("pymc.pmgp")

# Iterations of each of two stages; more would change the Gaussian by less than its draws differ.
ITERATIONS = 100


def fitted_gaussian(model: pm.Model, *, progressbar: bool, quiet: bool) -> OptimizedInducing | None:
    """Fit the Gaussian of the whitened values and the hyper-parameters that maximize the bound.

    It is None if the model has no process on inducing inputs or several, or if the bound cannot be optimized, for which
    a warning gives the reason.
    """
    processes = list(inducing_processes(model).values())
    if len(processes) != 1:
        return None
    try:
        found = optimize_inducing(
            cast(Sparse, processes[0]), model=model, inducing=False, max_iterations=ITERATIONS, progressbar=progressbar
        )
    except (ValueError, NotImplementedError, NullTypeGradError) as error:
        if not quiet:
            _log.warning(f"Chains start from the model's own initial point, not near the posterior: {error}")
        return None
    if not quiet:
        _log.info(
            "Chains start from draws of a Gaussian for the inducing values, fitted together with the hyper-parameters; "
            "initvals={} uses the model's own initial point"
        )
    return found


def follow(step: BlockedStep | CompoundStep, found: OptimizedInducing, model: pm.Model) -> None:
    """Let a step method for several outputs use the Gaussian, because a search for modes of classes may end anywhere.

    Other step methods, and those for one output, do not change.
    """
    for method in step.methods if isinstance(step, CompoundStep) else [step]:
        if found.several and isinstance(method, SparseGibbs):
            method.follow(found, model)
