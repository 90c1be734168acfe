"""Every operator agrees with independent draws on thirty posterior means and variances of f, on one of four models.

The others, and other sizes of n, are the business of Geweke's test (`test_geweke_operators.py`).
"""

from __future__ import annotations

from functools import cache
from itertools import cycle
from typing import NamedTuple

import numpy as np
import pytest

from pmgp.core.approximations import Laplace
from pmgp.core.gaussians import DensePrior
from pmgp.core.latent_updates import MetropolisUpdate
from pmgp.core.likelihoods import Likelihood
from tests.confirmation import confirmed
from tests.latent_updates.cases import MODELS, OPERATORS, Model, length_of, name_of
from tests.latent_updates.chains import BOUND, batch_means, path

pytestmark = pytest.mark.slow
SIZE = 30
INDEPENDENT = 100_000


class Posterior(NamedTuple):
    """Means and variances of f by importance sampling, with their standard errors."""

    likelihood: Likelihood
    mean: np.ndarray
    mean_error: np.ndarray
    variance: np.ndarray
    variance_error: np.ndarray


def prior() -> DensePrior:
    """A rough process with a nugget, so that the isotropic operators get around too."""
    X = np.random.default_rng(2).uniform(size=(SIZE, 2))
    distance = np.linalg.norm(X[:, None] - X, axis=-1)
    return DensePrior(np.full(SIZE, 0.3), np.asfortranarray(0.6 * np.exp(-distance / 0.2) + 0.4 * np.eye(SIZE)))


@cache
def posterior(model: Model) -> Posterior:
    rng = np.random.default_rng(11)
    likelihood = model.likelihood(model.draw(rng, prior().sample(rng, 1)[0]))
    approximation = Laplace().refine(Laplace().fit(prior(), likelihood), likelihood)
    draws = approximation.sample(rng, INDEPENDENT)
    log_weights = approximation.log_ratio(likelihood, draws)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    assert 1.0 / np.square(weights).sum() > 0.2 * INDEPENDENT
    mean, mean_error = _weighted(weights, draws)
    return Posterior(likelihood, mean, mean_error, *_weighted(weights, np.square(draws - mean)))


def _weighted(weights: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean = weights @ values
    return mean, np.sqrt(np.square(weights) @ np.square(values - mean))


CASES = list(zip(OPERATORS, cycle(MODELS), strict=False))


@pytest.mark.parametrize(("operator", "model"), CASES, ids=[f"{name_of(o)}-{m.name}" for o, m in CASES])
def test_means_and_variances(operator, model):
    truth = posterior(model)
    steps = length_of(operator) * (4 if operator == MetropolisUpdate("isotropic") else 1) // 2

    def distance(seed: int) -> float:
        draws = path(operator, prior(), truth.likelihood, steps, seed)
        mean, mean_error = batch_means(draws)
        variance, variance_error = batch_means(np.square(draws - truth.mean))
        means = np.abs(mean - truth.mean) / np.hypot(mean_error, truth.mean_error)
        variances = np.abs(variance - truth.variance) / np.hypot(variance_error, truth.variance_error)
        return float(max(means.max(), variances.max()))

    assert confirmed(distance, BOUND) < BOUND
