"""The choice of the approximation and the estimators of a pseudo-marginal step: the user's, or one for the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from pmgp.core import approximations, estimators
from pmgp.core.approximations import Approximation
from pmgp.core.estimators import (
    ApproximateEvidence,
    Estimator,
    ImportanceSampling,
    OrthantSampling,
    RaoBlackwellSampling,
    SequentialSampling,
)
from pmgp.core.estimators.base import Demanding, Priced
from pmgp.core.estimators.integrated_vector import is_normal_given_others
from pmgp.core.likelihoods.base import Divisible
from pmgp.core.markov import PathSampling
from pmgp.core.registry import resolve
from pmgp.interface.model.latent_gaussian import LatentGaussianModel
from pmgp.interface.model.latent_pieces import LatentPieces
from pmgp.interface.steps.matrices import NUMPY, Matrices

# Groups of a likelihood that is evaluated as a whole for each of them.
GROUPS = 16
# Elements in a group where observations have several predictors, and the largest number of groups.
NARROW, MOST_GROUPS = 16, 128


def chosen_approximation(given: Approximation | str, model: LatentGaussianModel, tight: bool = False) -> Approximation:
    """Return the requested approximation, or with "auto" the one that suits the model.

    Names stand for `tight` ones where their own evidence is used.
    """
    names: Any = approximations.TIGHT if tight else approximations.NAMES
    suitable = names["ep" if model.sites_known else "laplace"]
    return resolve(given, {"auto": suitable, **names}, Approximation, "approximation")


def approximation_for(estimator: Estimator, given: Approximation | str, model: LatentGaussianModel) -> Approximation:
    """Return the requested approximation for an estimator."""
    return chosen_approximation(given, model, tight=isinstance(estimator, ApproximateEvidence))


def chosen_estimators(
    given: Estimator | str, model: LatentGaussianModel, matrices: Matrices = NUMPY
) -> tuple[Estimator, tuple[Priced, ...]]:
    """Return the requested estimator, and with "auto" also others that tuning may choose in its place."""
    if isinstance(given, str) and given == "auto":
        first, others = _suitable(model)
        return first, tuple(other for other in others if matrices.supports(other))
    chosen = named_estimator(given, model)
    if not matrices.supports(chosen):
        raise ValueError(
            f'backend="jax" estimates p(y|theta) by importance sampling; for {type(chosen).__name__} use '
            'backend="numpy", or estimator="importance" with JAX'
        )
    return chosen, ()


def named_estimator(given: Estimator | str, model: LatentGaussianModel) -> Estimator:
    """Return the requested estimator; the name "auto" stands for the one that is tried first."""
    if isinstance(given, str) and given == "auto":
        return _suitable(model)[0]
    names: dict[str, Callable[[], Estimator]] = {"auto": ImportanceSampling, **estimators.NAMES}
    if model.latent_prior.markov:
        names["sequential"] = lambda: _along(model)
    names["rao-blackwell"] = lambda: integrating(model) or RaoBlackwellSampling()
    chosen: Estimator = resolve(given, names, Estimator, "estimator")
    _refuse_kind(chosen, model)
    if isinstance(chosen, Demanding):
        chosen.require(model.likelihood(model.initial_theta))
    return chosen


def _suitable(model: LatentGaussianModel) -> tuple[Estimator, tuple[Priced, ...]]:
    likelihood = model.likelihood(model.initial_theta)
    if model.latent_prior.markov:
        return (_along(model) if isinstance(likelihood, Divisible) else ImportanceSampling()), ()
    if (integrated := integrating(model)) is not None:
        return integrated, ()
    if isinstance(model.latent_vector, LatentPieces):
        return ImportanceSampling(), ()
    first, *others = estimators.suitable(likelihood, model.latent_vector.several)
    return first, tuple(others)


def integrating(
    model: LatentGaussianModel, draws: int | str = RaoBlackwellSampling.draws
) -> RaoBlackwellSampling | None:
    """Return sampling with the first process integrated out that is normal given the others; None without one."""
    found = [vector for vector in range(model.latent_vector.number) if _is_normal(model, vector)]
    return RaoBlackwellSampling(draws, vector=found[0]) if found else None


def _is_normal(model: LatentGaussianModel, vector: int) -> bool:
    """Return whether a process is normal given the others and the data, at the initial theta and around it.

    A skew normal density, for example, is normal where its skewness is zero, as it may be at first.
    """
    several = model.latent_vector.number
    if several < 2 or model.terms is None or not model.terms.separate or not 0 <= vector < several:
        return False
    mean, variance = model.initial_moments
    moments = mean, np.sqrt(variance), several, vector
    return all(is_normal_given_others(model.likelihood(theta), *moments) for theta, _, _ in model.checks.probes)


def _along(model: LatentGaussianModel) -> Estimator:
    """Return sampling along a time series, in wide groups where each evaluates the likelihood as a whole.

    Weights of observations with several predictors vary more, so their groups are narrow.
    """
    sites = len(model.initial_moments[0])
    if model.terms is not None and not model.terms.divisible:
        return cast(Estimator, PathSampling(width=max(PathSampling.width, sites // GROUPS)))
    if model.latent_vector.predictors.several:
        return cast(Estimator, PathSampling(width=max(NARROW, sites // MOST_GROUPS)))
    return cast(Estimator, PathSampling())


def _refuse_kind(estimator: Estimator, model: LatentGaussianModel) -> None:
    """Refuse an estimator whose draws the model's latent vectors do not allow."""
    name, dense = type(estimator).__name__, isinstance(estimator, OrthantSampling | SequentialSampling)
    if dense and model.latent_prior.markov:
        raise ValueError(
            f"{name} needs the covariance matrix of {model.latent_name!r}, which is never formed for a time series; "
            'use estimator="sequential", which stands for PathSampling there'
        )
    if dense and isinstance(model.latent_vector, LatentPieces):
        raise ValueError(
            f"{name} needs observations that depend on one value of {model.latent_name!r} each, and these depend on "
            'linear predictors; use estimator="importance" or "annealed"'
        )
    if isinstance(estimator, RaoBlackwellSampling) and not _is_normal(model, estimator.vector):
        raise ValueError(
            f"{name} integrates out process number {estimator.vector} of {model.latent_name!r}, which must be normal "
            "given the others and the data, as that for the mean of normal observations: give another number, as in "
            'RaoBlackwellSampling(vector=1), or estimator="importance"'
        )
    if isinstance(estimator, PathSampling) and not model.latent_prior.markov:
        raise ValueError(
            f"{name} draws the values of a time series one after another, but {model.latent_name!r} is not one; use "
            'estimator="sequential", which stands for SequentialSampling there'
        )
