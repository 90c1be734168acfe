"""Checks of a model by evaluating its graph: possible observations, finite inputs, one process.

Each check takes at most a few evaluations of functions that are compiled anyway.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
from pytensor.compile import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import MvNormalRV
from pytensor.tensor.variable import TensorVariable

from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods.checks import marked_rows
from pmgp.interface.model.effects import has_inputs
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.latent_variable import ONE_PROCESS, ModelError, are_summed, whitened_processes
from pmgp.interface.model.latent_vector import LatentVector
from pmgp.interface.model.likelihood_terms import LikelihoodTerms, binary_masks, moved
from pmgp.interface.model.observations import Observations
from pmgp.interface.model.probes import Probes
from pmgp.interface.model.theta_vector import ThetaVector
from pmgp.interface.model.time_series import is_markov, kind_of


def refuse_infinite_inputs(latent: str, graphs: list[TensorVariable], prior: DensePrior) -> None:
    """Refuse NaN and infinity in the arrays from which the mean and the covariance of f are computed.

    They are accepted if the mean and the covariance are finite, since a graph may ignore such elements.
    """
    n = prior.size
    for variable in ancestors(graphs):
        if not isinstance(variable, Constant | SharedVariable):
            continue
        # pymc.set_data masks NaN, but keeps it under the mask.
        array = np.asarray(variable.data if isinstance(variable, Constant) else variable.get_value(borrow=True))
        if array.dtype.kind != "f" or array.ndim == 0 or len(array) != n:
            continue
        wrong = ~np.isfinite(array)
        if wrong.any() and not prior.is_finite:
            rows = wrong.reshape(n, -1).any(axis=1)
            name = repr(variable.name) if isinstance(variable, SharedVariable) and variable.name else "X"
            raise ModelError(
                f"the inputs {name} of {latent!r}, of shape {array.shape}, have values that are not finite in "
                f"{marked_rows(rows)}; fill them in, or leave out these rows and their observations"
            )


def refuse_impossible(terms: LikelihoodTerms, observations: Observations, probes: Probes) -> None:
    """Refuse observations whose likelihood is zero or not a number at all probed points."""
    if terms.possible:
        return
    masks = np.tile(binary_masks(probes.sites), probes.number)
    rows = [terms.by_name(f + change * np.vstack([0.0 * f, masks]), theta) for theta, f, change in probes]
    rows.append(terms.by_name(probes.far, probes.theta))
    for name, first in rows[0].items():
        never = ~np.isfinite(np.concatenate([values[name] for values in rows])).any(axis=0)
        if never.any():
            raise ModelError(
                f"{not_finite(observations, name, never, first[0])} at the initial point and everywhere around it: "
                "such observations are outside the support of their distribution, or its other parameters are "
                "impossible"
            )


def not_finite(observations: Observations, name: str, wrong: np.ndarray, values: np.ndarray) -> str:
    """Return words that name the terms of the likelihood that are not finite, and their observations."""
    kinds = " or ".join(str(value) for value in np.unique(values[wrong]))
    observed = observations.value(name)
    if observed is not None and observed.shape == values.shape:
        return f"the log-likelihood of {name!r} is {kinds} for the observations in {marked_rows(wrong, observed)}"
    return f"the log-likelihood of {name!r} is {kinds}" + (f" in {marked_rows(wrong)}" if values.ndim else "")


def refuse_other_processes(
    model: pm.Model,
    latent: LatentVector | LatentPieces,
    theta: ThetaVector,
    terms: LikelihoodTerms | None,
    probes: Probes,
) -> None:
    """Refuse a second latent process among the hyper-parameters, which theta's proposals would hardly move.

    Processes are: variables that ``gp.prior`` whitened; time series; multivariate normal variables whose covariance is
    computed from inputs with a row for each element; and those as long as f, unless several of their elements affect
    one observation, as regression coefficients do.
    """
    for name in whitened_processes(model):
        raise ModelError(_two_processes(latent.name, name, "is a whitened Gaussian process"))
    for rv in model.free_RVs:
        if is_markov(rv) and rv not in latent.variables:
            if any(map(is_markov, latent.variables)) or are_summed(latent.variables):
                advice = "Name both with latent=[...], or leave latent out: they are integrated out together"
            else:
                advice = (
                    f"latent={[*latent.names, rv.name]} integrates both out together, if the likelihood depends on "
                    "linear predictors of them"
                )
            raise ModelError(
                f"the model has a second latent process besides {latent.name!r}: {rv.name!r} is a {kind_of(rv)}. "
                + advice
            )
        if rv in latent.variables or rv.owner is None or not isinstance(rv.owner.op, MvNormalRV):
            continue
        value = model.rvs_to_values[rv].name
        size = theta.unravel(theta.initial)[value].size
        if has_inputs(rv, size):
            raise ModelError(_two_processes(latent.name, rv.name, f"has a covariance of {size} inputs"))
        if size == probes.sites > 1 and not _enters_together(value, theta, terms, probes):
            raise ModelError(_two_processes(latent.name, rv.name, "is as long, with one element for each observation"))


def _two_processes(latent: str, other: str, why: str) -> str:
    return (
        f"the model has a second latent process besides {latent!r}: {other!r} {why}. Step methods for the "
        "hyper-parameters need all processes in f: build each with reparameterize=False, and leave out latent=...; "
        f"{ONE_PROCESS}. Otherwise update each process with its own pmgp.EllipticalSlice(latent=...), or sample the "
        "whitened processes with PyMC's NUTS"
    )


def _enters_together(name: str, theta: ThetaVector, terms: LikelihoodTerms | None, probes: Probes) -> bool:
    """Return whether an observation depends on several elements of one variable in theta."""
    if terms is None:
        return False
    for at, f, _ in probes:
        parts = theta.unravel(at)
        masks = binary_masks(parts[name].size)
        others = [theta.ravel(parts | {name: parts[name] + mask}) for mask in masks]
        values = np.vstack([terms.flat(f[None, :], other) for other in (at, *others)])
        ones, zeros = np.split(moved(values), 2)
        if np.any(ones & zeros):
            return True
    return False
