"""What the quick loop leaves out: cases of a test beside its representatives, which get the marker ``full``.

A test that is marked ``full`` is run by `make test` alone. Of one marked ``representatives("one", "other")`` the quick
loop runs the cases with these identifiers, of one marked ``representatives(but=["long"])`` all others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest

__all__ = ["SEEN", "files", "mark_full", "modules_without", "names_of_no_case"]

FOLDER = Path(__file__).parent
LONG = ("slow", "full")
SEEN = pytest.StashKey[list[pytest.Item]]()
"""All tests that were collected, before any is deselected."""


def mark_full(items: Iterable[pytest.Item]) -> None:
    """The cases of a test that has representatives and is not one of them."""
    for item in items:
        mark = item.get_closest_marker("representatives")
        if mark is not None and not represents(mark, case_of(item)):
            item.add_marker("full")


def represents(mark: pytest.Mark, case: str) -> bool:
    return case not in mark.kwargs["but"] if "but" in mark.kwargs else case in mark.args


def named(item: pytest.Item) -> set[str]:
    """Cases that the test's marker names."""
    mark = item.get_closest_marker("representatives")
    return set() if mark is None else {*mark.args, *mark.kwargs.get("but", ())}


def case_of(item: pytest.Item) -> str:
    """What a test's name has in brackets."""
    return item.name.partition("[")[2].removesuffix("]")


def files() -> set[Path]:
    return set(FOLDER.rglob("test_*.py"))


def modules_without(items: Iterable[pytest.Item]) -> set[str]:
    """Files, relative to the tests' folder, of which the quick loop runs nothing."""
    quick = defaultdict(bool)
    for item in items:
        quick[item.path] |= not any(item.get_closest_marker(name) for name in LONG)
    return {path.relative_to(FOLDER).as_posix() for path, some in quick.items() if not some}


def names_of_no_case(items: Iterable[pytest.Item]) -> set[str]:
    """Names in the marker that no case has, each with its test."""
    wanted, there = set(), set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        wanted |= {f"{test}[{name}]" for name in named(item)}
        there.add(f"{test}[{case_of(item)}]")
    return wanted - there
