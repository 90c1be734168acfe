"""Compilation of the core's kernels before chains run."""

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
    """Fit the approximation to two points, so that the kernels of tuning are compiled here and not in each worker.

    Kernels that are called after tuning are compiled, or read from the cache, when sampling begins. The likelihood is
    replaced with one of two observations that uses the same kernels. An approximation from outside the package has
    none. Other estimators than the given one are compiled if tuning measures them, since orthants take seconds.
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
