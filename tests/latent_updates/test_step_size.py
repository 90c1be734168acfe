"""Step sizes find the recommended acceptance rate, and stay where tuning left them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from pmgp.core.adaptation.step_size import StepSize
from pmgp.core.gaussians import DensePrior
from tests.latent_updates.cases import MODELS, tuned_operators
from tests.latent_updates.chains import tune

SIZE = 100


def learned(response, target: float, initial: float = 1.0, largest: float = np.inf, steps: int = 3_000) -> StepSize:
    size = StepSize.start(initial, largest)
    for _ in range(steps):
        size = size.updated(response(size.value), target)
    return size


@pytest.mark.parametrize("initial", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("target", [0.25, 0.65])
def test_the_rate_that_is_asked_for_is_found(initial, target):
    """For acceptance 2 Phi(-step / 2), that of a random walk in many dimensions."""
    rate = 2.0 * ndtr(-learned(lambda step: 2.0 * ndtr(-0.5 * step), target, initial).frozen / 2.0)
    assert rate == pytest.approx(target, abs=0.02)


def test_it_is_never_larger_than_allowed():
    size = learned(lambda step: 1.0, 0.25, initial=0.1, largest=1.0)
    assert size.value <= 1.0 + 1e-12
    assert 0.9 < size.frozen <= 1.0 + 1e-12


def test_before_tuning_it_is_where_it_starts():
    assert StepSize.start(0.3).value == StepSize.start(0.3).frozen == pytest.approx(0.3)


def test_the_average_is_steadier_than_the_last_step(rng):
    """The spread over runs with noisy acceptances."""
    runs = [learned(lambda step: float(rng.uniform() < 2.0 * ndtr(-0.5 * step)), 0.4, steps=400) for _ in range(100)]
    assert np.std([run.log_average for run in runs]) < 0.85 * np.std([run.log_step for run in runs])


def rough_classification():
    rng = np.random.default_rng(7)
    X = rng.uniform(size=(SIZE, 2))
    distance = np.linalg.norm(X[:, None] - X, axis=-1)
    prior = DensePrior(np.full(SIZE, 0.3), np.asfortranarray(2.0 * np.exp(-distance / 0.4) + 0.05 * np.eye(SIZE)))
    f = prior.sample(rng, 1)[0]
    return prior, MODELS[0].likelihood(MODELS[0].draw(rng, f)), f


@tuned_operators
def test_operators_reach_their_recommended_rate(operator):
    prior, likelihood, f = rough_classification()
    rng, target = np.random.default_rng(8), operator.prepare(prior, likelihood)
    point, size = tune(operator, rng, target, f, 600)
    rates = []
    for _ in range(400):
        point, info = operator.step(rng, point, target, size.frozen)
        rates.append(info.acceptance_rate)
    assert np.mean(rates) == pytest.approx(operator.target_acceptance, abs=0.1)
