"""The estimators that a scheme chooses among where it is left to it: those that a likelihood suits."""

from __future__ import annotations

from pmgp.core.estimators.base import Demanding, Priced
from pmgp.core.estimators.importance import ImportanceSampling
from pmgp.core.estimators.orthant import OrthantSampling
from pmgp.core.likelihoods.base import Likelihood

__all__ = ["suitable"]

CHOICE: tuple[Priced, ...] = (ImportanceSampling(), OrthantSampling())


def suitable(likelihood: Likelihood) -> tuple[Priced, ...]:
    """Importance sampling, and where the likelihood is one of limits for f with normal noise, orthants."""
    return tuple(estimator for estimator in CHOICE if _suits(estimator, likelihood))


def _suits(estimator: Priced, likelihood: Likelihood) -> bool:
    try:
        if isinstance(estimator, Demanding):
            estimator.require(likelihood)
    except ValueError:
        return False
    return True
