"""Calls on workers: each is made until it ends, and no wait is without a limit."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import BrokenExecutor, CancelledError, Future
from functools import partial

import pytest

import pmgp
from pmgp.interface.executors import Cells, executor_of, run_all, table_of
from pmgp.interface.executors import calls as executors
from tests.sampling.runs import is_running
from tests.sampling.test_executors import Here
from tests.sampling.workers import Pools, until


class Calls:
    """Work of some calls, which notes what happens to it."""

    advice = "Call again"

    def __init__(self, *calls, stall_limit=60.0):
        self.calls, self.stall_limit = calls, stall_limit
        self.begun, self.stopped, self.results = 0, 0, {}

    def begin(self):
        self.begun += 1
        return self.calls

    def moved(self):
        return None

    def ended(self, one):
        assert one.number not in self.results
        self.results[one.number] = one.result

    def stop(self):
        self.stopped += 1


def test_results_have_the_numbers_of_their_calls():
    work = Calls(*(partial(pow, number, 2) for number in range(5)))
    run_all(Here(), work)
    assert work.results == {number: number**2 for number in range(5)}
    assert (work.begun, work.stopped) == (1, 0)


@pytest.mark.parametrize("sign", [BrokenExecutor("killed"), CancelledError()])
def test_calls_that_have_ended_are_not_made_again(sign):
    made = []

    def breaks(number):
        if number == 1:
            raise sign

    def executor():
        made.append(Here(breaks if not made else lambda number: None))
        return made[-1]

    work = Calls(*(partial(pow, number, 2) for number in range(4)))
    run_all(executor, work)
    assert work.results == {number: number**2 for number in range(4)}
    assert [one.submitted for one in made] == [4, 1]
    assert (work.begun, work.stopped) == (2, 0)


def test_a_task_that_an_executor_gave_up_is_named():
    def gives_up(number):
        raise CancelledError

    with pytest.raises(pmgp.WorkerError, match=r"a worker died: its executor gave up the task\. Call again"):
        run_all(Here(gives_up), Calls(partial(pow, 1, 2)))


def test_calls_that_have_not_begun_are_not_waited_for():
    class Queue(Here):
        def submit(self, function, /, *args, **others):
            return Future()

    work, begun = Calls(partial(pow, 1, 2), stall_limit=0.1), time.monotonic()
    with pytest.raises(pmgp.WorkerError, match=r"nothing has moved for 0.1 seconds; tasks 0 .* Call again"):
        run_all(Queue(), work)
    assert time.monotonic() - begun < executors.GRACE / 2
    assert work.stopped == 1


def test_a_halted_worker_is_killed_if_its_pool_was_made_for_the_call(monkeypatch):
    """It would otherwise keep the process that made the pool from ending."""
    monkeypatch.setattr(executors, "GRACE", 0.1)
    pools, limit = Pools(), 3.0
    with pytest.raises(pmgp.WorkerError, match="nothing has moved for 3 seconds"):
        run_all(pools, Calls(halt, stall_limit=limit))
    until(lambda: not any(is_running(process) for process in pools.begun))
    assert pools.begun


def halt():
    os.kill(os.getpid(), signal.SIGSTOP)


def test_what_cannot_be_pickled_is_named():
    with pytest.raises(pmgp.WorkerError, match="task 1 cannot be sent to workers, because it cannot be pickled"):
        run_all(Here(), Calls(partial(pow, 1, 2), threading.Lock().acquire))


@pytest.mark.parametrize("executor", [None, Here()])
def test_cells_are_kept_as_they_end_and_those_before_a_failure_stay(executor):
    kept = {}
    calls = {"one": partial(pow, 2, 3), "two": partial(pow, 0, -1), "three": partial(pow, 2, 5)}
    with pytest.raises(ZeroDivisionError):
        Cells(calls, kept.__setitem__, "Call again").run(executor, "", shows=False)
    assert kept["one"] == 8
    del calls["two"]
    table = Cells(calls, kept.__setitem__, "Call again").run(executor, "", shows=False)
    assert kept == {"one": 8, "three": 32}
    assert [line.split()[0] for line in table.splitlines()] == ["one", "three"]


def test_the_table_says_where_a_call_was_made():
    rows = [(f"chain {number}", executors._timed(number, partial(pow, 2, 2))) for number in (8, 10)]
    lines = table_of(rows).splitlines()
    assert len(lines) == 2
    assert all(f"process {os.getpid()}" in line and line.endswith("0.0 s") for line in lines)
    assert lines[0].startswith("chain 8   ")


def test_words_that_name_no_workers_make_no_executor():
    assert executor_of(None, None) is None


@pytest.mark.parametrize(("workers", "cluster", "words"), [(0, None, "at least 1, not 0"), (2, "a:1", "not both")])
def test_words_that_make_no_executor_are_refused(workers, cluster, words):
    with pytest.raises(ValueError, match=words):
        executor_of(workers, cluster)
