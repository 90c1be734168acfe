"""The estimators that a scheme chooses among where it is left to it: those that a likelihood suits."""

from __future__ import annotations

from pmgp.core.estimators.base import Demanding, Priced
from pmgp.core.estimators.importance import ImportanceSampling
from pmgp.core.estimators.orthant import OrthantSampling
from pmgp.core.estimators.sequential import SequentialSampling
from pmgp.core.likelihoods.base import Likelihood

__all__ = ["suitable"]

# For one latent vector, and for several, whose posteriors may be far from any Gaussian.
OF_ONE: tuple[Priced, ...] = (ImportanceSampling(), OrthantSampling())
OF_SEVERAL: tuple[Priced, ...] = (ImportanceSampling(), SequentialSampling())


def suitable(likelihood: Likelihood, several: bool = False) -> tuple[Priced, ...]:
    """Importance sampling, and what may be better for the likelihood.

    For one latent vector orthants, where the likelihood is one of limits for f with normal noise; for several
    sequential estimates, where its terms are known one by one.
    """
    return tuple(estimator for estimator in (OF_SEVERAL if several else OF_ONE) if _suits(estimator, likelihood))


def _suits(estimator: Priced, likelihood: Likelihood) -> bool:
    try:
        if isinstance(estimator, Demanding):
            estimator.require(likelihood)
    except ValueError:
        return False
    return True
