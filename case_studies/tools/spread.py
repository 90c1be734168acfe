"""The units of a study on workers: computed anywhere, and put into the study's tables here as each of them ends.

A study's command line takes ``--workers N`` for processes on this machine, or ``--cluster ADDRESS`` for the workers of
a Dask scheduler. Units do not communicate, and the random numbers of each have names of their own, so the results are
the same. Tables are written by one process only; a unit that they have is not sent again.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from typing import Any

from threadpoolctl import threadpool_limits

from pmgp.interface.executors import Cells, Executors, executor_of

__all__ = ["spread", "workers_of"]

LONGEST = 24 * 3600.0
"""Seconds without the end of a unit after which workers count as stalled."""
ADVICE = "Units that ended are in the tables; the same command skips them"


def workers_of(given: Namespace) -> Executors | None:
    """Return an executor for the workers that the command line names, or None."""
    return executor_of(given.workers, given.cluster)


def spread[Unit: Any, Result](
    units: Iterable[Unit],
    compute: Callable[[Unit], Result],
    keep: Callable[[Unit, Result], None],
    executor: Executors | None = None,
) -> None:
    """Compute units in order, or side by side on workers, and print where each was computed and for how long.

    Parameters
    ----------
    units : iterable
        With different names.
    compute : callable
        Takes a unit. It runs in a worker with one thread, and is pickled by value.
    keep : callable
        Takes a unit and its result, in this process, when the unit has ended.
    executor : Executor, or a function that makes one, optional
        None computes the units in this process, one after another.

    Raises
    ------
    WorkerError
        If workers die or stall, lack a package, or have other versions.
    """
    named = {unit.name: unit for unit in units}
    calls = {name: _OneThread(compute, unit) for name, unit in named.items()}
    table = Cells(calls, lambda name, result: keep(named[name], result), ADVICE, LONGEST).run(executor, "", shows=False)
    if executor is not None:
        print(table, flush=True)


class _OneThread:
    """A call that computes a unit on one core: units run side by side, and their seconds are those of one core."""

    def __init__(self, compute: Callable[[Any], Any], unit: Any) -> None:
        self._compute, self._unit = compute, unit

    def __call__(self) -> Any:
        with threadpool_limits(limits=1):
            return self._compute(self._unit)
