"""Find the traits of a model on which the choice of step methods depends."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pmgp.core.likelihoods.base import SiteLikelihood
from pmgp.interface.model.latent_gaussian import LatentGaussianModel, ModelError, find_latent
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.model.missing import hyperparameters
from pmgp.interface.steps.shared import share

# Values of f at which the likelihood's curvature is checked, in standard deviations of the prior.
PROBES = np.linspace(-4.0, 4.0, 9)


class Traits(NamedTuple):
    """The traits of a model on which the choice depends.

    `latent` is the argument that names f to the step methods, empty if they find it by themselves. `factorizes` says
    that no free variable depends on f either; `sites_known`, whether the terms of the likelihood can be evaluated one
    by one, so that their moments can be matched; `log_concave` holds at all values that were checked; `series` says
    whether f is a time series; `combined`, that observations depend on linear predictors of f.
    """

    latent: dict[str, str]
    dimension: int
    factorizes: bool
    sites_known: bool
    log_concave: bool
    series: bool = False
    combined: bool = False


def traits_of(model: pm.Model, latent: Any) -> Traits:
    """Return the traits of a model with one f, or with the f that is named."""
    parts, factorizes = _parts(model, latent)
    theta = parts.theta.initial
    combined = isinstance(parts.latent_vector, LatentPieces)
    prior, likelihood = parts.prior(theta), cast("SiteLikelihood", parts.likelihood(theta))
    variance = prior.variance.copy()
    places = prior.mean + np.multiply.outer(PROBES, np.sqrt(variance))
    return Traits(
        latent={} if latent is None else {"latent": parts.latent.name},
        dimension=parts.dimension,
        factorizes=factorizes,
        sites_known=factorizes and parts.sites_known,
        log_concave=factorizes and not combined and all(_nowhere_negative(likelihood.curvature(f)) for f in places),
        series=parts.latent_prior.markov,
        combined=combined,
    )


def _parts(model: pm.Model, latent: Any) -> tuple[LatentGaussianModel, bool]:
    """Return the parts of a model, and whether the likelihood factorizes.

    The parts that a pseudo-marginal chain needs are the ones that this method is recommended for, and shared with it.
    """
    try:
        return share(model, latent, given_theta=False).parts, True
    except ModelError:
        parts = share(model, latent).parts
    parts.checks.refuse_other_processes(model)
    return parts, _factorizes(model, parts)


def _nowhere_negative(curvature: np.ndarray) -> bool:
    return bool((curvature >= -1e-8 * np.abs(curvature).max()).all())


def _factorizes(model: pm.Model, parts: LatentGaussianModel) -> bool:
    """Return whether p(y|f, theta) factorizes over f."""
    others = hyperparameters(model, [parts.latent])
    if others and parts.latent_value in set(ancestors(model.logp(vars=others, sum=False))):
        return False
    try:
        parts.require_factorizing()
    except ModelError:
        return False
    return True


def is_latent(model: pm.Model, name: str) -> bool:
    """Return whether a variable can be f."""
    try:
        find_latent(model, name)
    except ModelError:
        return False
    return True


def number_of_latent_values(model: pm.Model) -> int:
    """Return the number of values of the largest process."""
    shapes = [rv.type.shape for rv in model.free_RVs if is_latent(model, rv.name)]
    return max((shape[-1] or 0 for shape in shapes if shape), default=0)
