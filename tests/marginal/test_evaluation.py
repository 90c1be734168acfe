"""What an evaluation at theta hands on once it is ready for importance samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import Conditioning, DensePrior
from pmgp.core.likelihoods import BernoulliProbit
from pmgp.core.marginal.evaluation import Evaluator, Indefinite, OutsideSupport, Ready

THETA = np.array([0.4])


class Model:
    """Labels at inputs that are there twice, so that K needs a jitter, or at others."""

    def __init__(self, inputs: np.ndarray, log_prior: float = -0.7) -> None:
        covariance = np.exp(-0.5 * np.square(inputs[:, None] - inputs))
        self._prior = DensePrior(np.full(inputs.size, 0.3), np.asfortranarray(covariance))
        self._log_prior = log_prior

    def log_prior(self, theta):
        return self._log_prior

    def prior(self, theta):
        return self._prior

    def likelihood(self, theta):
        return BernoulliProbit(np.arange(self._prior.size) % 2)


TWICE = Model(np.array([0.0, 0.0, 0.5, 0.5, 2.0]))
APART = Model(np.array([0.0, 1.0, 2.5]))


class Refining(Laplace):
    """Refines the evidence, too."""

    def refine(self, approximation, likelihood):
        return replace(approximation, log_evidence=-99.0)


def ready(model: Model, approximation: Laplace) -> Ready:
    evaluate = Evaluator(model, approximation)
    found = evaluate.prepare(evaluate(THETA, None))
    assert isinstance(found, Ready)
    return found


def test_under_a_covariance_that_needed_a_jitter_q_is_conditioned_again():
    """Draws and weights are of the K with the jitter; q for the one without is another Gaussian, if by little."""
    q = ready(TWICE, Laplace(sweeps=0)).approximation
    assert q.prior.jitter > 0.0
    conditioned = Conditioning(q.prior)
    assert conditioned.on(q.linear, q.precision)
    assert_array_equal(q.mean, conditioned.mean)
    assert q.log_determinant == conditioned.log_determinant
    without = Laplace().fit(TWICE.prior(THETA), TWICE.likelihood(THETA))
    assert not np.array_equal(q.mean, without.mean)


def test_the_screen_is_the_evidence_that_was_fitted():
    """The second stage has to correct for what the first one used."""
    evaluate = Evaluator(APART, Refining())
    fitted = evaluate(THETA, None)
    found = evaluate.prepare(fitted)
    assert found.approximation.log_evidence == -99.0
    assert found.log_screen == fitted.log_screen == pytest.approx(-0.7 + fitted.approximation.log_evidence)


def test_what_is_ready_stays_as_it_is():
    found = ready(APART, Laplace())
    assert Evaluator(APART, Refining()).prepare(found) is found


def test_outside_the_support_nothing_is_fitted():
    assert isinstance(Evaluator(Model(np.zeros(2), -np.inf), Laplace())(THETA, None), OutsideSupport)


def test_a_covariance_that_is_not_finite_is_indefinite():
    assert isinstance(Evaluator(Model(np.array([0.0, np.nan])), Laplace())(THETA, None), Indefinite)
