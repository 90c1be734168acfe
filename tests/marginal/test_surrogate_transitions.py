"""Trajectories on the screen, then one estimate: Geweke's test, and broken twins that it must reject."""

from __future__ import annotations

import numpy as np
import pytest

from pmgp.core.adaptation.mode_prediction import ModePredictor
from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.approximations import ExpectationPropagation, Laplace
from pmgp.core.estimators import ImportanceSampling
from pmgp.core.marginal.evaluation import Evaluator
from pmgp.core.marginal.pseudo_marginal import Frozen, PseudoMarginalChain
from pmgp.core.marginal.screen import ScreenDensity
from pmgp.core.transitions import adaptive
from pmgp.core.transitions.adaptive import HamiltonianMonteCarlo
from tests.marginal.geweke import DifferentiableToy, largest_change

# The largest of ten z-scores exceeds 4 once in 1,600 correct runs.
BOUND = 4.0
TRAJECTORIES = HamiltonianMonteCarlo(max_leapfrog=3)
# One Newton step from wherever it starts: the screen is another function for every predictor.
HASTY = Laplace(max_iterations=1, sweeps=0)
LABELS = np.array([0, 1, 1, 0, 1, 1])


def chain(**settings) -> PseudoMarginalChain:
    return PseudoMarginalChain(ImportanceSampling(2), TRAJECTORIES, **settings)


def frozen(predictor=None, step_size: float = 0.9) -> Frozen:
    """Coordinates are deliberately not those of theta."""
    factor = np.array([[0.5, 0.0], [0.15, 0.7]])
    scaling = TRAJECTORIES.start(2, 0)._replace(step_size=StepSize.start(step_size), factor=factor)
    return Frozen(scaling, predictor, 2)


def predictor() -> ModePredictor:
    """Return a predictor of modes at draws of the prior, for one set of labels, with constant coefficients."""
    rng, model = np.random.default_rng(3), DifferentiableToy(LABELS)
    fitted = ModePredictor(2, 6, model.prior_mean, model.prior_scale)
    for _ in range(40):
        theta = model.prior_mean + model.prior_scale * rng.standard_normal(2)
        fitted.add(theta, Evaluator(model, Laplace())(theta, None).approximation.mean)
    fitted.solve()
    return fitted


class KeepsLearning:
    """A broken twin: fits start from where the last one ended."""

    def __init__(self):
        self.last = None

    def predict(self, theta):
        return self.last


def score(approximation=HASTY, given=None, replicates: int = 1500, **settings) -> float:
    return largest_change(chain(**settings), given or frozen(predictor()), approximation, replicates)


@pytest.mark.parametrize("approximation", [HASTY, ExpectationPropagation()])
def test_joint_distribution_is_kept(approximation):
    # A start for expectation propagation has twice the length.
    given = frozen() if isinstance(approximation, ExpectationPropagation) else None
    assert score(approximation, given) < BOUND


def test_joint_distribution_is_kept_with_several_trajectories():
    assert score(transitions=3, replicates=1000) < BOUND


def test_a_momentum_that_is_not_refreshed_is_rejected(monkeypatch):
    right = adaptive.hamiltonian

    class Same:
        def __init__(self, rng):
            self.integers, self.uniform, self.random = rng.integers, rng.uniform, rng.random

        def standard_normal(self, shape):
            return np.full(shape, 0.8)

    monkeypatch.setattr(adaptive, "hamiltonian", lambda rng, *rest: right(Same(rng), *rest))
    assert score(replicates=800) > BOUND


@pytest.mark.parametrize("transitions", [1, 3])
def test_a_second_stage_without_the_ratio_of_the_first_is_rejected(monkeypatch, transitions):
    """It accepts with the ratio of the estimates, as if proposals had been symmetric."""
    right = PseudoMarginalChain._accept

    def broken(self, rng, state, current, candidate, log_ratio, frozen):
        return right(
            self, rng, state, current._replace(log_screen=0.0), candidate._replace(log_screen=0.0), log_ratio, frozen
        )

    monkeypatch.setattr(PseudoMarginalChain, "_accept", broken)
    assert score(transitions=transitions, replicates=800) > BOUND


def test_a_predictor_that_keeps_learning_is_rejected(monkeypatch):
    right = ScreenDensity.at

    def remembering(self, position, gradient=False):
        point = right(self, position, gradient)
        if isinstance(self.predictor, KeepsLearning) and hasattr(point.payload, "approximation"):
            self.predictor.last = point.payload.approximation.mean
        return point

    monkeypatch.setattr(ScreenDensity, "at", remembering)
    assert score(given=frozen(KeepsLearning())) > BOUND


# The gradient


@pytest.mark.parametrize("approximation", [Laplace(tolerance=1e-14), ExpectationPropagation(tolerance=1e-10)])
def test_the_gradient_of_the_screen(approximation):
    density = ScreenDensity(Evaluator(DifferentiableToy(LABELS), approximation), None)
    theta, step = np.array([0.2, 0.9]), 1e-4 * np.eye(2)
    expected = [(density.at(theta + s).log_density - density.at(theta - s).log_density) / 2e-4 for s in step]
    np.testing.assert_allclose(density.gradient(theta), expected, rtol=1e-5)
    np.testing.assert_array_equal(density.at(theta, gradient=True).gradient, density.gradient(theta))


def test_there_is_no_gradient_outside_of_the_support():
    class Bounded(DifferentiableToy):
        def log_prior(self, theta):
            return -np.inf

    density = ScreenDensity(Evaluator(Bounded(LABELS), Laplace()), None)
    assert np.isnan(density.gradient(np.zeros(2))).all()
    assert density.at(np.zeros(2), gradient=True).log_density == -np.inf


def test_a_trajectory_that_leaves_the_support_diverges():
    class Bounded(DifferentiableToy):
        def log_prior(self, theta):
            return super().log_prior(theta) if np.abs(theta - self.prior_mean).max() < 1e-3 else -np.inf

    density = ScreenDensity(Evaluator(Bounded(LABELS), Laplace()), None)
    point = density.at(DifferentiableToy.prior_mean, gradient=True)
    moved, info = TRAJECTORIES.step(np.random.default_rng(0), point, density, frozen().learned)
    assert moved is point
    assert info.energy_error == np.inf
    assert info.acceptance_rate == 0.0
