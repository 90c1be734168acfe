"""Margins are those of random numbers: exact comparisons are not among them, and a doubtful score is confirmed."""

from __future__ import annotations

import ast

import pytest

from tests.confirmation import confirmed
from tests.margins import Margin, differ, recordable


def compared(*ratios: tuple[str, float]) -> list[Margin]:
    return [Margin("test_a.py", 1, "z < 5.0", 5.0 * ratio, 5.0, ratio, "case", run) for run, ratio in ratios]


def test_values_of_a_loop_that_each_run_repeats_are_no_random_numbers():
    assert not differ(compared(("first", 0.1), ("first", 0.7), ("second", 0.1), ("second", 0.7)))
    assert differ(compared(("first", 0.1), ("first", 0.7), ("second", 0.1), ("second", 0.6)))
    assert differ(compared(("first", 0.1), ("second", 0.1), ("second", 0.1)))


@pytest.mark.parametrize(
    ("source", "recorded"), [("z < 5.0", True), ("z > 5.0", True), ("before <= after", False), ("0.0 < z < 5.0", False)]
)
def test_laws_are_no_bounds(source, recorded):
    assert recordable(ast.parse(source, mode="eval").body) == recorded


@pytest.mark.parametrize(("scores", "found"), [((3.0, 9.0), 3.0), ((4.4, 1.0), 1.0), ((8.0, 7.0), 7.0)])
def test_a_score_near_its_bound_is_confirmed_by_a_second_seed(scores, found):
    assert confirmed(lambda seed: scores[seed - 1], 5.0) == found
