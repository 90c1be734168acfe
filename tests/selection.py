"""The tests that the quick loop leaves out: those that took long when they were last measured.

``slow.txt`` has their names, which ``pytest --store-durations`` writes. A name without brackets stands for all cases of
a test. What has no line there is quick until it is measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

__all__ = ["LISTED", "SEEN", "files", "listed", "mark_slow", "renewed"]

FOLDER = Path(__file__).parent
LISTED = FOLDER / "slow.txt"
SEEN = pytest.StashKey[list[pytest.Item]]()
"""All tests that were collected, before any is deselected."""

LONG = 0.1
"""Processor seconds of a test that is left out."""
SHORT = 0.05
"""One that is left out comes back if it takes less: what is compiled for the first test of a file, others have free."""
REPRESENTATIVE = 1.0
"""A file of long tests alone is represented by its shortest one, unless that takes more."""


def listed() -> set[str]:
    return set(LISTED.read_text(encoding="utf-8").splitlines())


def mark_slow(items: Iterable[pytest.Item]) -> None:
    names = listed()
    for item in items:
        if not names.isdisjoint(_names(item.nodeid)):
            item.add_marker("slow")


def renewed(names: Iterable[str], seconds: Mapping[str, float], pace: float = 1.0) -> list[str]:
    """Return the lines of ``slow.txt`` after a run.

    Parameters
    ----------
    names : iterable of str
        The lines before it. Those of tests that were not measured stay.
    seconds : mapping
        Processor seconds of the tests that were, by their names with brackets.
    pace : float
        How many times slower this machine is.
    """
    before = set(names)
    measured = {name for test in seconds for name in _names(test)}
    limits = {test: pace * (LONG if before.isdisjoint(_names(test)) else SHORT) for test in seconds}
    long = {test for test, taken in seconds.items() if taken > limits[test]}
    for tests in _grouped(seconds, "::").values():
        shortest = min(tests, key=lambda test: seconds[test])
        if long.issuperset(tests) and seconds[shortest] <= pace * REPRESENTATIVE:
            long.remove(shortest)
    whole = {test for test, cases in _grouped(seconds, "[").items() if long.issuperset(cases)}
    kept = {name for name in before - measured if name.partition("[")[0] not in whole}
    return sorted(kept | whole | {test for test in long if test.partition("[")[0] not in whole})


def files() -> set[Path]:
    return set(FOLDER.rglob("test_*.py"))


def _names(test: str) -> tuple[str, str]:
    """The lines that would name a test: its own, and that of all its cases."""
    return test, test.partition("[")[0]


def _grouped(tests: Iterable[str], end: str) -> dict[str, list[str]]:
    """Tests by what stands before a sign: the file's name, or the name without brackets."""
    groups = defaultdict(list)
    for test in tests:
        groups[test.partition(end)[0]].append(test)
    return groups
