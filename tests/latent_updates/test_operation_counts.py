"""The O(n^3) operations of T transitions are those of the comparative evaluation's Table 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pmgp.core.gaussians import DensePrior
from pmgp.core.latent_updates import (
    EllipticalSliceUpdate,
    HamiltonianUpdate,
    LangevinUpdate,
    MetropolisUpdate,
    RiemannianUpdate,
)
from pmgp.core.numerics.ledger import OperationCounts, counted
from tests.latent_updates.cases import MODELS, OPERATORS, Model, every_model, name_of

SIZE = 12
TRANSITIONS = [0, 1, 7]


def operations_of(operator: Any, model: Model, transitions: int, step_size: float = 0.2) -> OperationCounts:
    """Operations of T transitions at one theta, beginning with K."""
    rng = np.random.default_rng(4)
    x = np.linspace(0.0, 1.0, SIZE)
    covariance = np.exp(-0.5 * np.square((x[:, None] - x) / 0.2)) + 0.1 * np.eye(SIZE)
    f = np.linalg.cholesky(covariance) @ rng.standard_normal(SIZE)
    prior, likelihood = DensePrior(np.zeros(SIZE), np.asfortranarray(covariance)), model.likelihood(model.draw(rng, f))
    with counted() as counts:
        target = operator.prepare(prior, likelihood)
        point = operator.init(target, f)
        for _ in range(transitions):
            point, _ = operator.step(rng, point, target, step_size)
    return counts.total


def table_1(operator: Any, transitions: int) -> tuple[int, int, int]:
    """The row of an operator; for SMMALA with the constant that the table leaves out, K's factor and the start's."""
    if isinstance(operator, LangevinUpdate):
        return (transitions + 2, 1, 0)
    if operator == HamiltonianUpdate("posterior"):
        return (2, 1, 0)
    if operator == RiemannianUpdate("fixed", max_leapfrog=3):
        return (2, 0, 0)
    return (1, 0, 0)


# Only the volatility model's information is the same everywhere, and Laplace's approximation is not in the table.
VARYING = [model for model in MODELS if model.name != "volatility"]
NOT_IN_TABLE = (EllipticalSliceUpdate(reference="laplace"), RiemannianUpdate("local", max_leapfrog=3))
TABLE = [operator for operator in OPERATORS if operator not in NOT_IN_TABLE]


@pytest.mark.parametrize("transitions", TRANSITIONS)
@pytest.mark.parametrize("model", VARYING, ids=lambda model: model.name)
@pytest.mark.parametrize("operator", TABLE, ids=name_of)
def test_counts_are_those_of_table_1(operator, model, transitions):
    assert operations_of(operator, model, transitions).cubic == table_1(operator, transitions)


@pytest.mark.parametrize("transitions", TRANSITIONS)
def test_a_metric_that_does_not_change_is_factorized_once(transitions):
    (volatility,) = set(MODELS) - set(VARYING)
    assert operations_of(LangevinUpdate(), volatility, transitions).cubic == (2, 1, 0)


@pytest.mark.parametrize("step_size", [1e-8, 1e8])
def test_rejections_cost_what_acceptances_do(step_size):
    cox = MODELS[1]
    assert operations_of(LangevinUpdate(), cox, 5, step_size).inverse == 1
    assert operations_of(LangevinUpdate(), cox, 5, step_size).cholesky <= 7
    assert operations_of(MetropolisUpdate("random_walk"), cox, 5, step_size).cubic == (1, 0, 0)
    assert operations_of(HamiltonianUpdate("prior"), cox, 5, step_size).cubic == (1, 0, 0)


@every_model
def test_laplace_approximation_is_fitted_once(model):
    first, later = (operations_of(EllipticalSliceUpdate(reference="laplace"), model, t) for t in (0, 20))
    assert first.cubic == later.cubic
    assert first.cholesky > 1
    assert first.inverse == first.matmul == 0


@pytest.mark.parametrize("operator", OPERATORS, ids=name_of)
def test_a_factor_that_is_known_is_not_made_again(operator):
    """Several operators that share a prior factorize K once in all."""
    prior = DensePrior(np.zeros(3), np.asfortranarray(np.eye(3) + 0.5))
    assert prior.factorized() is prior
    likelihood = MODELS[0].likelihood(np.array([0, 1, 1]))
    with counted() as counts:
        operator.init(operator.prepare(prior, likelihood), np.zeros(3))
    needed = counts.total.cholesky
    expected = {MetropolisUpdate: 0, LangevinUpdate: 1}.get(type(operator), 0)
    if operator == HamiltonianUpdate("posterior"):
        expected = 2
    elif operator == EllipticalSliceUpdate(reference="laplace"):
        expected = counted_newton_steps(prior, likelihood)
    elif isinstance(operator, RiemannianUpdate):
        expected = int(operator.metric != "identity")
    assert needed == expected


def counted_newton_steps(prior: DensePrior, likelihood: Any) -> int:
    from pmgp.core.approximations import Laplace

    return Laplace(sweeps=0).fit(prior, likelihood).iterations
