"""Independent calls with names, whose results are taken as they come: folds, models, cells of a study."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from pmgp.interface.executors.calls import STALL_LIMIT, Ended, Executors, run_all, table_of


class Cells:
    """Calls by name, as work for an executor.

    The calls take no arguments, and are pickled by value. In this process, `keep` takes the name of a call and its
    result, as soon as the call has ended. `advice` says in an error what is kept, and how to continue. Workers count as
    stalled after `stall_limit` seconds without the end of a call.
    """

    def __init__(
        self,
        calls: Mapping[str, Callable[[], Any]],
        keep: Callable[[str, Any], None],
        advice: str,
        stall_limit: float = STALL_LIMIT,
    ) -> None:
        self._calls, self._keep, self.advice, self.stall_limit = calls, keep, advice, stall_limit
        self._names, self._rows = list(calls), list[tuple[str, Ended]]()

    def run(self, executors: Executors | None, description: str, shows: bool) -> str:
        """Make all calls, and return a table that says what ran where and for how long."""
        columns = (TextColumn(description), BarColumn(), TextColumn("{task.completed} of {task.total}"))
        with Progress(*columns, TimeElapsedColumn(), disable=not shows) as progress:
            self._advance = progress.advance
            self._bar = progress.add_task("", total=len(self._calls))
            run_all(executors, self)
        return table_of(sorted(self._rows, key=lambda row: row[1].number))

    def begin(self) -> Sequence[Callable[[], Any]]:
        """Return the calls."""
        return list(self._calls.values())

    def moved(self) -> None:
        """Return None: nothing is seen of a call before it ends."""

    def ended(self, one: Ended) -> None:
        """Keep the result of a call."""
        name = self._names[one.number]
        self._keep(name, one.result)
        self._rows.append((name, one))
        self._advance(self._bar)

    def stop(self) -> None:
        """Do nothing: a call runs to its end, and its result is dropped."""
