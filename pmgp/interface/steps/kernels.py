"""Compiled kernels of the core, made ready before chains run."""

from __future__ import annotations

from typing import Any

import numpy as np

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.approximations import Approximation, ExpectationPropagation, Laplace
from pmgp.core.estimators import Estimator, OrthantSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliLogit, BernoulliProbit, Likelihood, OrdinalProbit

LABELS = np.array([0, 1])


def compile_kernels(approximation: Approximation, likelihood: Likelihood, estimator: Estimator) -> None:
    """Approximate once, on two points: what tuning calls is compiled here, and not in each worker.

    What is called after tuning is compiled, or read from the cache, where that begins.

    Parameters
    ----------
    approximation : Approximation
        Those from outside of the package are left alone.
    likelihood : Likelihood
        Likelihood of the model; the one that stands in for it has kernels where this one has.
    estimator : Estimator
        That chains begin with. Orthants take seconds to compile. What tuning may choose in its place is compiled if
        tuning comes to measure it.
    """
    if not isinstance(approximation, ExpectationPropagation | Laplace):
        return
    ModePredictor(1, 2, np.zeros(1), np.ones(1)).features(np.zeros(1))
    small = _two_points(likelihood)
    q: Any = approximation.fit(DensePrior(np.zeros(2), np.asfortranarray(np.eye(2))), small)
    if isinstance(estimator, OrthantSampling):
        OrthantSampling(2).estimate_given(np.random.default_rng(0), q, BernoulliProbit(LABELS), q.mean)


def _two_points(likelihood: Likelihood) -> Likelihood:
    if isinstance(likelihood, OrdinalProbit):
        return OrdinalProbit(LABELS, np.zeros(1))
    return BernoulliProbit(LABELS) if isinstance(likelihood, BernoulliProbit) else BernoulliLogit(LABELS)
