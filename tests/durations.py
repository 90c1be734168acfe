"""Processor seconds of tests: the order in which files begin, the budget that each one keeps to, and what is slow.

``durations.json`` holds what ``pytest --store-durations`` measured last. Files begin longest first, so that no long one
is left for one worker at the end. Processor time hardly depends on what else a machine does, and a slower machine is
slower for all files: a file is named at the end of a run where it takes much longer than its figure and the others do
not. That fails no run, for what takes long depends on the machine too; figures that are stored are held to budgets.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.selection import LISTED, listed, renewed

__all__ = ["LARGEST", "STORED", "TOTAL", "Recorder", "over_budget", "stored"]

STORED = Path(__file__).with_name("durations.json")
TOTAL = 2 * 14.5 * 60.0
"""Processor seconds of all files: with half a minute to import and collect them, 15 minutes on two cores.

On a slower machine, an unchanged file that is measured beside others says what to divide their figures by.
"""
LARGEST = 120.0
"""Processor seconds of one file."""
TIMES, MORE = 3.0, 20.0
SPENT = pytest.StashKey[float]()
SHARED = pytest.StashKey[dict[str, float]]()
"""Seconds of the fixtures that a test was the first of several to ask for."""


def stored() -> dict[str, float]:
    """Processor seconds of each file when it was measured last, by its path from the root."""
    return json.loads(STORED.read_text())


def over_budget(measured: Mapping[str, float], expected: Mapping[str, float]) -> dict[str, float]:
    """Files that take three times their figure and 20 seconds more, and their seconds.

    One without a figure may take ``LARGEST``.
    """
    slower = pace(measured, expected)
    allowed = {file: slower * (TIMES * expected[file] + MORE if file in expected else LARGEST) for file in measured}
    return {file: seconds for file, seconds in measured.items() if seconds > allowed[file]}


def pace(measured: Mapping[str, float], expected: Mapping[str, float]) -> float:
    """How many times slower this machine is, at least one: by all files that have figures."""
    known = sum(expected[file] for file in measured if file in expected)
    return max(1.0, sum(measured[file] for file in measured if file in expected) / max(known, 1.0))


class Recorder:
    """A plug-in of pytest that adds up the seconds of each test, its fixtures and processes included.

    Parameters
    ----------
    store : bool
        Whether the figures of the files that are run as a whole replace the stored ones, and the list of slow tests is
        renewed.
    """

    def __init__(self, store: bool = False):
        self.store = store
        self.files: dict[str, float] = defaultdict(float)
        self.own: dict[str, float] = defaultdict(float)
        self.fixtures: dict[str, float] = defaultdict(float)
        self.users: dict[str, set[str]] = defaultdict(set)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        return (yield from _timed(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        return (yield from _timed(item))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        return (yield from _timed(item))

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        start = _now()
        try:
            return (yield)
        finally:
            if fixturedef.scope != "function":
                shared = request._pyfuncitem.stash.setdefault(SHARED, {})
                shared[_named(fixturedef)] = _now() - start

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo) -> Iterator[None]:
        """The report carries the seconds from a worker to the process that began it."""
        report = yield
        report.processor_seconds = item.stash.get(SPENT, 0.0)
        report.shared = item.stash.get(SHARED, {}) if call.when == "setup" else {}
        report.uses = _shared_fixtures(item)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.files[report.nodeid.partition("::")[0]] += report.processor_seconds
        self.own[report.nodeid] += report.processor_seconds - sum(report.shared.values())
        for name, seconds in report.shared.items():
            self.fixtures[name] += seconds
        for name in report.uses:
            self.users[name].add(report.nodeid)

    @property
    def tests(self) -> dict[str, float]:
        """Seconds of each test, with its part of the fixtures that it shares with others."""
        seconds = dict(self.own)
        for name, tests in self.users.items():
            for test in tests:
                seconds[test] += self.fixtures[name] / len(tests)
        return seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        if self.store:
            slow = renewed(listed(), self.tests, pace(self.files, stored()))
            LISTED.write_text("".join(f"{name}\n" for name in slow), encoding="utf-8")
        if self.store and not _partial(session.config):
            there = {path: seconds for path, seconds in stored().items() if Path(path).exists()}
            rounded = {path: round(seconds, 1) for path, seconds in self.files.items()}
            STORED.write_text(json.dumps(dict(sorted((there | rounded).items())), indent=0) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        late = {} if self.store else over_budget(self.files, stored())
        for path, seconds in late.items():
            figure = stored().get(path, LARGEST)
            terminalreporter.write_line(
                f"{path} took {seconds:.0f} processor seconds, where {figure:.0f} are expected: make it faster, or "
                f"store its new figure with pytest {path} --store-durations",
                red=True,
            )


def _partial(config: pytest.Config) -> bool:
    """Whether only some of the tests of a file were run."""
    chosen = config.getoption("markexpr") or config.getoption("keyword")
    return bool(chosen) or any("::" in argument for argument in config.args)


def _timed(item: pytest.Item) -> Iterator[None]:
    start = _now()
    try:
        return (yield)
    finally:
        item.stash[SPENT] = _now() - start


def _now() -> float:
    """Processor seconds of this process and of those that it began."""
    return sum(os.times()[:4])


def _named(fixturedef: Any) -> str:
    return f"{fixturedef.baseid}::{fixturedef.argname}"


def _shared_fixtures(item: Any) -> list[str]:
    """The fixtures of a test that others may have as well."""
    found = [definitions[-1] for definitions in item._fixtureinfo.name2fixturedefs.values()]
    return [_named(fixturedef) for fixturedef in found if fixturedef.scope != "function"]
