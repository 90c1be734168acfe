"""The estimators that suit a likelihood, among which a scheme chooses by default."""

from __future__ import annotations

from pmgp.core.estimators.base import Demanding, Priced
from pmgp.core.estimators.importance import ImportanceSampling
from pmgp.core.estimators.orthant import OrthantSampling
from pmgp.core.estimators.sequential import SequentialSampling
from pmgp.core.likelihoods.base import Likelihood

# Candidates for one latent vector, and for several, whose posteriors may be far from any Gaussian.
OF_ONE: tuple[Priced, ...] = (ImportanceSampling(), OrthantSampling())
OF_SEVERAL: tuple[Priced, ...] = (ImportanceSampling(), SequentialSampling())


def suitable(likelihood: Likelihood, several: bool = False) -> tuple[Priced, ...]:
    """Return importance sampling, and an estimator that may be better for the likelihood if there is one.

    For one latent vector that is orthant sampling, if the likelihood gives limits for f plus normal noise. For several
    vectors it is sequential sampling, if the likelihood's terms can be evaluated one by one.
    """
    return tuple(estimator for estimator in (OF_SEVERAL if several else OF_ONE) if _suits(estimator, likelihood))


def _suits(estimator: Priced, likelihood: Likelihood) -> bool:
    try:
        if isinstance(estimator, Demanding):
            estimator.require(likelihood)
    except ValueError:
        return False
    return True
