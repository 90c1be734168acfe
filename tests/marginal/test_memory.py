"""A chain holds a few n x n matrices, however long it runs."""

from __future__ import annotations

import tracemalloc

import numpy as np

from pmgp.core.approximations import Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.gaussians import DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from pmgp.core.transitions.mixture import LearnedMixture
from pmgp.core.transitions.proposals import AdaptiveProposal
from tests.marginal.geweke import ready_point

SIZE = 300


class Line:
    """A squared exponential process at many points of a line; theta is the log variance."""

    squared = np.square(np.subtract.outer(np.linspace(-3, 3, SIZE), np.linspace(-3, 3, SIZE)))

    def log_prior(self, theta: np.ndarray) -> float:
        return -0.5 * float(theta @ theta)

    def prior(self, theta: np.ndarray) -> DensePrior:
        covariance = np.exp(theta[0] - 0.5 * self.squared) + 1e-4 * np.eye(SIZE)
        return DensePrior(np.zeros(SIZE), np.asfortranarray(covariance))

    def likelihood(self, theta: np.ndarray) -> BernoulliProbit:
        return BernoulliProbit(np.arange(SIZE) % 2)


def peak_matrices(iterations: int) -> float:
    """Peak of the traced memory while a chain runs, in n x n matrices."""
    rng = np.random.default_rng(0)
    evaluate = Evaluator(Line(), Laplace())
    scheme = PseudoMarginalChain(ImportanceSampling(16))
    frozen = Frozen(LearnedMixture.fixed(AdaptiveProposal(1)), None, 16)
    tracemalloc.start()
    try:
        current = ready_point(evaluate, np.zeros(1))
        state = scheme.init(rng, current.payload, frozen)
        for _ in range(iterations):
            state, current, _ = scheme.step(rng, state, current, evaluate, frozen)
        return tracemalloc.get_traced_memory()[1] / (8 * SIZE**2)
    finally:
        tracemalloc.stop()


def test_memory_is_a_few_matrices_and_does_not_grow():
    short, long = peak_matrices(20), peak_matrices(200)
    assert long < 10.0
    assert long < short + 1.0
