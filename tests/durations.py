"""Processor seconds of each file of tests: the order in which files begin, and the budget that each one keeps to.

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

import pytest

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


def stored() -> dict[str, float]:
    """Processor seconds of each file when it was measured last, by its path from the root."""
    return json.loads(STORED.read_text())


def over_budget(measured: Mapping[str, float], expected: Mapping[str, float]) -> dict[str, float]:
    """Files that take three times their figure and 20 seconds more, and their seconds.

    The files that have figures say together how fast the machine is. One without a figure may take ``LARGEST``.
    """
    known = sum(expected[file] for file in measured if file in expected)
    pace = max(1.0, sum(measured[file] for file in measured if file in expected) / max(known, 1.0))
    allowed = {file: pace * (TIMES * expected[file] + MORE if file in expected else LARGEST) for file in measured}
    return {file: seconds for file, seconds in measured.items() if seconds > allowed[file]}


class Recorder:
    """A plug-in of pytest that sums the seconds of each file's tests, their fixtures and processes included.

    Parameters
    ----------
    store : bool
        Whether the figures of files that are run as a whole replace the stored ones.
    """

    def __init__(self, store: bool = False):
        self.store = store
        self.seconds: dict[str, float] = defaultdict(float)

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
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        """The report carries the seconds from a worker to the process that began it."""
        report = yield
        report.processor_seconds = item.stash.get(SPENT, 0.0)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid.partition("::")[0]] += report.processor_seconds

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workerinput"):
            return
        if self.store:
            there = {path: seconds for path, seconds in stored().items() if Path(path).exists()}
            rounded = {path: round(seconds, 1) for path, seconds in self.seconds.items()}
            STORED.write_text(json.dumps(dict(sorted((there | rounded).items())), indent=0) + "\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        late = {} if self.store else over_budget(self.seconds, stored())
        for path, seconds in late.items():
            figure = stored().get(path, LARGEST)
            terminalreporter.write_line(
                f"{path} took {seconds:.0f} processor seconds, where {figure:.0f} are expected: make it faster, or "
                f"store its new figure with pytest {path} --store-durations",
                red=True,
            )


def _timed(item: pytest.Item) -> Iterator[None]:
    start = sum(os.times()[:4])
    try:
        return (yield)
    finally:
        item.stash[SPENT] = sum(os.times()[:4]) - start
