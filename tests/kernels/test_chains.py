"""A chain with compiled kernels and one with NumPy's take the same way."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pmgp
from pmgp import models
from tests.kernels.references import by_numpy

TUNE, DRAWS = 60, 40


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    return models.classifier(X, (X[:, 0] + 0.5 * rng.normal(size=30) > 0.0).astype(int))


def draws_of(step, model):
    """Values and statistics after tuning."""
    step.setup_chain(np.random.default_rng(2), TUNE, DRAWS)
    point, drawn = model.initial_point(), []
    for iteration in range(TUNE + DRAWS):
        if iteration == TUNE:
            step.stop_tuning()
        point, [stats] = step.step(point)
        drawn.append(np.concatenate([np.ravel(value) for value in point.values()]))
    return np.array(drawn), stats


@pytest.mark.parametrize("approximation", ["ep", "laplace"])
def test_a_chain_is_the_same_with_both(model, approximation):
    with model:
        step = pmgp.PseudoMarginal(approximation=approximation)
    results = []
    for chosen in (nullcontext, by_numpy):
        with chosen():
            results.append(draws_of(step, model))
    (one, stats), (other, reference) = results
    assert_allclose(one, other, rtol=1e-7, atol=1e-9)
    assert stats.keys() == reference.keys()
    counted = ("n_cholesky", "n_inverse", "n_matmul", "accepted")
    assert [stats[name] for name in counted] == [reference[name] for name in counted]
    assert len(np.unique(one[TUNE:, 0])) > 5
