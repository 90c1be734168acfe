"""Compiled kernels of the core, made ready before chains run."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit, Likelihood

__all__ = ["compile_kernels"]

LABELS = np.array([0, 1])


def compile_kernels(approximation: Approximation, likelihood: Likelihood) -> None:
    """Estimate once, on two points: what is compiled at its first call is so here, and not in each worker.

    Parameters
    ----------
    approximation : Approximation
        Those from outside of the package are left alone.
    likelihood : Likelihood
        Of the model; the one that stands in for it has no kernels of its own.
    """
    if not isinstance(approximation, ExpectationPropagation | Laplace):
        return
    small = BernoulliProbit(LABELS) if isinstance(likelihood, BernoulliProbit) else BernoulliLogit(LABELS)
    q: Any = approximation.refine(
        approximation.fit(DensePrior(np.zeros(2), np.asfortranarray(np.eye(2))), small), small
    )
    ImportanceSampling(2).estimate(np.random.default_rng(0), q, small)
