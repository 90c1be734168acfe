"""Geweke's joint distribution test (2004) of every operator of f on a softmax of three latent vectors.

Alternate transitions of f given y with fresh labels y given f. Then f and y must keep their joint distribution.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from pmgp.core.gaussians import BlockApproximation, BlockPrior, DensePrior
from pmgp.core.latent_updates import EllipticalSliceUpdate, MetropolisUpdate
from pmgp.core.likelihoods import MultinomialLogit
from tests.latent_updates.cases import every_operator, shortened
from tests.latent_updates.chains import BOUND, largest_distance, targets_of, tune

SITES, CLASSES = 2, 3
STEPS, TRANSITIONS, INDEPENDENT = 2_000, 2, 200_000


def prior() -> BlockPrior:
    """With means and covariances that are not alike, so that no vector can be taken for another."""
    parts = []
    for c, (variance, correlation) in enumerate([(0.5, 0.3), (1.5, 0.9), (3.0, -0.5)]):
        covariance = variance * np.array([[1.0, correlation], [correlation, 1.2]], order="F")
        parts.append(DensePrior(np.array([0.3 * c, -0.4]), covariance))
    return BlockPrior(parts)


def draw_labels(rng: np.random.Generator, f: np.ndarray) -> np.ndarray:
    """(..., C n) to (..., n)."""
    f = f.reshape(*f.shape[:-1], CLASSES, SITES)
    return (f + rng.gumbel(size=f.shape)).argmax(axis=-2)


def statistics(f: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Moments of f, and which of its values belong to the labels: (steps, 33)."""
    rows, columns = np.triu_indices(CLASSES * SITES)
    chosen = (y[:, None, :] == np.arange(CLASSES)[:, None]).reshape(len(y), -1)
    return np.concatenate([f, f[:, rows] * f[:, columns], np.tanh(f) * chosen], axis=1)


@cache
def independent_statistics() -> tuple[np.ndarray, np.ndarray]:
    """Means and standard errors by the marginal-conditional simulator."""
    rng = np.random.default_rng(0)
    f = prior().sample(rng, INDEPENDENT)
    values = statistics(f, draw_labels(rng, f))
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(INDEPENDENT)


def chain_statistics(operator: Any, length: int) -> np.ndarray:
    """The successive-conditional simulator."""
    rng, p = np.random.default_rng(1), prior()
    f = p.sample(rng, 1)[0]
    y = draw_labels(rng, f)
    target_of = targets_of(operator, p, lambda y: MultinomialLogit(y, CLASSES))
    # Other labels may say more about f, and a chain must not get stuck at them.
    step_size = tune(operator, rng, target_of(y), f, 300)[1].frozen / 2.0
    steps = shortened(operator, length)
    fs, ys = np.empty((steps, f.size)), np.empty((steps, SITES), dtype=int)
    for step in range(steps):
        target = target_of(y)
        point = operator.init(target, f)
        for _ in range(TRANSITIONS):
            point, _ = operator.step(rng, point, target, step_size)
        f = point.payload
        fs[step], ys[step] = f, y
        y = draw_labels(rng, f)
    return statistics(fs, ys)


def distance(operator: Any, length: int) -> float:
    return largest_distance(chain_statistics(operator, length), *independent_statistics())


@every_operator
def test_joint_distribution_is_kept(operator):
    """The twin of ellipses needs more draws than the others."""
    assert distance(operator, 2 * STEPS if isinstance(operator, EllipticalSliceUpdate) else STEPS) < BOUND


def test_sites_that_are_taken_for_diagonal_are_rejected(monkeypatch):
    """Ellipses about q, and weights of a q without the couplings of its sites."""

    def broken(self, likelihood, f):
        return likelihood.log_likelihood(f) - f @ self.linear + 0.5 * np.square(f) @ self.precision.scale.ravel()

    monkeypatch.setattr(BlockApproximation, "log_ratio", broken)
    assert distance(EllipticalSliceUpdate(reference="laplace"), 6 * STEPS) > 2.0 * BOUND


def test_vectors_with_each_others_covariance_are_rejected(monkeypatch):
    def broken(self, nu):
        return np.concatenate([part.deviation(x) for part, x in zip(self.parts[::-1], self._split(nu), strict=True)])

    monkeypatch.setattr(BlockPrior, "deviation", broken)
    assert distance(MetropolisUpdate("autoregressive"), 2 * STEPS) > 2.0 * BOUND
