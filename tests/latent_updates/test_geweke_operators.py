"""Geweke's joint distribution test (2004) of every operator on every model.

Alternate transitions of f given y with fresh data y given f. Then f and y must keep their joint distribution.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from pmgp.core.gaussians import DensePrior
from pmgp.core.latent_updates import EllipticalSliceUpdate, MetropolisUpdate
from tests.confirmation import confirmed
from tests.latent_updates.broken import TWINS
from tests.latent_updates.cases import MODELS, OPERATORS, Model, name_of, shortened
from tests.latent_updates.chains import BOUND, largest_distance, targets_of, tune

MEAN = np.array([0.4, -0.3, 0.8])
COVARIANCE = np.array([[1.2, 0.7, 0.2], [0.7, 0.9, 0.4], [0.2, 0.4, 0.5]], order="F")
STEPS = 2_500
TRANSITIONS = 2
INDEPENDENT = 200_000


def statistics(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Moments of f, and bounded functions of the data that tie them to f: (steps, 12)."""
    rows, columns = np.triu_indices(3)
    return np.concatenate([f, f[:, rows] * f[:, columns], f * np.tanh(np.abs(y))], axis=1)


@cache
def independent_statistics(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors by the marginal-conditional simulator."""
    rng = np.random.default_rng(0)
    f = MEAN + rng.standard_normal((INDEPENDENT, 3)) @ np.linalg.cholesky(COVARIANCE).T
    values = statistics(f, model.draw(rng, f))
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(INDEPENDENT)


def cautious_step_size(operator: Any, model: Model, rng: np.random.Generator, f: np.ndarray) -> float:
    """Half of what one data set recommends: others are more informative, and a chain must not get stuck at them."""
    target = operator.prepare(DensePrior(MEAN, COVARIANCE.copy(order="F")), model.likelihood(model.draw(rng, f)))
    return tune(operator, rng, target, f, 300)[1].frozen / 2.0


def chain_statistics(operator: Any, model: Model, seed: int, steps: int) -> np.ndarray:
    """The successive-conditional simulator."""
    rng = np.random.default_rng(seed)
    prior = DensePrior(MEAN, COVARIANCE.copy(order="F"))
    f = prior.sample(rng, 1)[0]
    step_size = cautious_step_size(operator, model, rng, f)
    y, target_of = model.draw(rng, f), targets_of(operator, prior, model.likelihood)
    path = np.empty((shortened(operator, steps), 2, 3))
    for row in path:
        target = target_of(y)
        point = operator.init(target, f)
        for _ in range(TRANSITIONS):
            point, _ = operator.step(rng, point, target, step_size)
        f = point.payload
        row[:] = f, y
        y = model.draw(rng, f)
    return statistics(path[:, 0], path[:, 1])


def z_score(operator: Any, model: Model, seed: int = 1, steps: int = STEPS) -> float:
    return largest_distance(chain_statistics(operator, model, seed, steps), *independent_statistics(model))


def pairs() -> list[Any]:
    """Each operator with two models; those with derivatives without ordinal labels, where these take long.

    Implicit steps take longest where data are volatile.
    """
    logit, cox, volatility, ordinal = MODELS
    found = []
    for place, operator in enumerate(OPERATORS):
        plain = isinstance(operator, EllipticalSliceUpdate | MetropolisUpdate)
        first = (logit, cox, volatility)[place % 3]
        second = ordinal if plain else (cox, volatility, logit)[place % 3]
        implicit = getattr(operator, "metric", "") == "local"
        found += [pytest.param(operator, model) for model in ((logit, cox) if implicit else (first, second))]
    return found


@pytest.mark.parametrize(("operator", "model"), pairs(), ids=lambda one: getattr(one, "name", None) or name_of(one))
def test_joint_distribution_is_kept(operator, model):
    assert confirmed(lambda seed: z_score(operator, model, seed), BOUND) < BOUND


REJECTED = {
    "ellipse_forgets_the_mean": "cox",
    "sites_not_divided_out": "volatility",
    "proposals_taken_for_symmetric": "logit",
    "mass_matrix_term_forgotten": "cox",
    "prior_counted_twice": "logit",
    "prior_not_counted": "volatility",
}
# These need twice the iterations.
FAINT = {"sites_not_divided_out", "proposals_taken_for_symmetric", "prior_not_counted"}
FIRST = {twin.breaks.__name__: twin for twin in reversed(TWINS)}


@pytest.mark.parametrize(("mistake", "name"), REJECTED.items())
def test_a_broken_twin_is_rejected(mistake, name, monkeypatch):
    (model,) = (model for model in MODELS if model.name == name)
    FIRST[mistake].breaks(monkeypatch)
    steps = 2 * STEPS if mistake in FAINT else STEPS
    assert z_score(FIRST[mistake].operator, model, steps=steps) > 2.0 * BOUND
