"""Compiled kernels of the core, made ready before chains run."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import Estimator, ImportanceSampling, OrthantSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit, Likelihood

__all__ = ["compile_kernels"]

LABELS = np.array([0, 1])


def compile_kernels(approximation: Approximation, likelihood: Likelihood, estimator: Estimator) -> None:
    """Estimate once, on two points: what is compiled at its first call is so here, and not in each worker.

    Parameters
    ----------
    approximation : Approximation
        Those from outside of the package are left alone.
    likelihood : Likelihood
        Of the model; the one that stands in for it has no kernels of its own.
    estimator : Estimator
        That chains begin with. What tuning may choose in its place is compiled if tuning comes to measure it.
    """
    if not isinstance(approximation, ExpectationPropagation | Laplace):
        return
    small = BernoulliProbit(LABELS) if isinstance(likelihood, BernoulliProbit) else BernoulliLogit(LABELS)
    fitted = approximation.fit(DensePrior(np.zeros(2), np.asfortranarray(np.eye(2))), small)
    q: Any = approximation.refine(fitted, small)
    rng = np.random.default_rng(0)
    ImportanceSampling(2).estimate(rng, q, small)
    if isinstance(estimator, OrthantSampling):
        OrthantSampling(2).estimate_given(rng, q, BernoulliProbit(LABELS), q.mean)
