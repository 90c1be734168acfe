"""The model of what many machines cost agrees with what was measured, and the page shows what it says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from benchmarks import cluster, cost
from tests.sampling.test_executors import Here

COSTS = cost.Costs(start=5.0, in_worker=1.0, gathering=0.1, latency=0.001, bandwidth=1e9, entry=1e-9)


def predicted_over_measured(costs: cost.Costs) -> float:
    """Seconds of the chains on two workers, by the model with the constants of one worker, over those measured."""
    work = cost.stored()[1].loc["chains"]
    # On two workers an iteration itself may take longer, since cores share memory and caches.
    predicted = costs.tasks(int(work["tasks"]), work["own s a task, two workers"], 2, started=True)
    return predicted / work["s, two workers"]


def test_chains_on_two_workers_take_what_those_on_one_predict():
    costs, *_ = cost.stored()
    assert 0.8 < predicted_over_measured(costs) < 1.25
    per_task = replace(costs, gathering=costs.gathering + 1.0)
    assert not 0.8 < predicted_over_measured(per_task) < 1.25


def test_a_smaller_product_takes_what_the_larger_one_predicts():
    costs, _, found = cost.stored()
    assert 0.75 < costs.product(4000, 8, 1) / found["product with n = 4000, s"] < 1.33


def test_the_page_shows_the_tables():
    assert cost.page() in cost.PAGE.read_text(encoding="utf-8")


def test_chains_are_shared_out_in_whole_rounds():
    assert_allclose([COSTS.tasks(number, 60.0, 8) for number in (8, 9)], [66.8, 127.9])
    assert_allclose(COSTS.tasks(8, 60.0, 8, started=True), 61.8)
    assert COSTS.tasks(8, 60.0, 100) == COSTS.tasks(8, 60.0, 8)


def test_a_cluster_pays_from_where_it_is_as_quick():
    found = COSTS.pays_from(40, 20, 4)
    assert_allclose(COSTS.tasks(40, found, 20), COSTS.without_workers(40, found, 4), atol=0.01)
    assert COSTS.tasks(40, 2.0 * found, 20) < COSTS.without_workers(40, 2.0 * found, 4)
    assert COSTS.pays_from(40, 4, 4) == float("inf")


def test_devices_receive_the_rows_of_the_others():
    assert COSTS.moved(1000, 8, 1) == 0.0
    assert COSTS.moved(1000, 8, 4) == 8 * 8 * 750
    assert COSTS.product(10**6, 8, 1) == pytest.approx(1000.0)
    assert 0.5 < COSTS.product(10**6, 8, 2) / COSTS.product(10**6, 8, 1) < 0.501
    n = COSTS.fewest_points(8, 2)
    assert n > 2
    assert COSTS.product(n, 8, 2) < COSTS.product(n, 8, 1)
    assert COSTS.product(n - 1, 8, 2) >= COSTS.product(n - 1, 8, 1)


def test_a_product_by_blocks_of_rows_is_that_of_the_matrix(rng):
    X, vectors = rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    K = np.exp(-0.5 * np.square(X[:, None] - X).sum(axis=2))
    assert_allclose(cluster.product(X, vectors, slice(10, 25)), (K @ vectors)[10:25], rtol=1e-10)


@pytest.mark.parametrize("name", cluster.WORK)
def test_the_time_of_work_is_its_own_and_an_overhead(name, monkeypatch):
    tiny = {"CHAINS": 2, "TUNE": 20, "DRAWS": 20, "POINTS": 20, "CELLS": 4, "ROWS": 30, "WEIGHED": 8}
    for constant, value in (tiny | {"SCALE": replace(cluster.SCALE, tune=10, draws=20, checkpoints=(20,))}).items():
        monkeypatch.setattr(cluster, constant, value)
    executor = cluster.Watched(Here())
    found = cluster.WORK[name][0](executor)
    assert 0.0 < found.own <= found.busy <= found.elapsed
    assert len(executor.futures) == {"chains": 2, "cells": 4, "weights": 8}[name]
