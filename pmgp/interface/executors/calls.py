"""Calls on the workers of an executor: each is made until it ends, and every wait has a limit.

Any `concurrent.futures.Executor` will do, including that of a Dask client. If a worker's death breaks an executor,
another one takes the calls that have not ended; if nothing moves for too long, an error says where to look.
"""

from __future__ import annotations

import os
import pickle
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import cloudpickle  # type: ignore[import-untyped]

from pmgp.interface.executors.versions import differences, worker_versions

EVERY = 0.25
"""Seconds between two looks at what moves."""
GRACE = 60.0
"""Seconds to wait for workers that were told to stop."""
ATTEMPTS = 3
"""Executors that may break in a row while nothing moves."""
STALL_LIMIT = 1800.0
"""Seconds without a sign of progress after which workers count as stalled, by default."""

type Executors = Executor | Callable[[], Executor]


class WorkerError(RuntimeError):
    """A task could not be sent to a worker, or its worker died, stalls, or has other versions of the packages.

    Examples
    --------
    >>> import pmgp
    >>> from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
    >>> class Unreachable(ThreadPoolExecutor):
    ...     def submit(self, *arguments):
    ...         raise BrokenExecutor("the cluster does not answer")
    >>> with pmgp.models.classifier([[0.0], [1.0]], [0, 1]):
    ...     try:
    ...         pmgp.sample(draws=10, tune=10, executor=Unreachable(), progressbar=False)
    ...     except pmgp.WorkerError as error:
    ...         print(error)
    a worker died: the cluster does not answer. ...
    """


class Ended(NamedTuple):
    """A call that has ended: its place among the calls, its result, the machine and process, and its seconds."""

    number: int
    result: Any
    where: str
    seconds: float


class Work(Protocol):
    """Calls that workers are to make, and signs of their progress.

    `advice` says in an error what is kept, and how to continue. Workers count as stalled after `stall_limit` seconds
    without progress and without the end of a call.
    """

    advice: str
    stall_limit: float

    def begin(self) -> Sequence[Callable[[], Any]]:
        """Let workers begin, and return the calls, in the same order each time; they can be pickled."""

    def moved(self) -> Any:
        """Return anything that differs from its last value after progress within a call."""

    def ended(self, one: Ended) -> None:
        """Take a call that has ended."""

    def stop(self) -> None:
        """Tell the workers to stop."""


def check_executor(executor: Executors | None, stall_limit: float, flush_every: float = 0.0) -> None:
    """Refuse what is neither an executor nor makes one, and a limit below the time between two signs of progress."""
    if executor is not None and not isinstance(executor, Executor) and not callable(executor):
        raise TypeError(
            f"executor must be a concurrent.futures.Executor or a function that makes one, not {executor!r}; a Dask "
            "client gives one with client.get_executor()"
        )
    if not stall_limit > flush_every:
        raise ValueError(
            f"stall_limit={stall_limit:g} must be above {flush_every:g}, the seconds between two writes (flush_every)"
        )


def run_all(executors: Executors | None, work: Work) -> None:
    """Make all calls on workers, each again if its worker dies, or one after another in this process.

    A function `executors` is called again where a worker's death breaks the executor; None makes the calls here. A
    worker that lacks a package, workers that die, and a stall raise a WorkerError.
    """
    if executors is None:
        for number, call in enumerate(work.begin()):
            work.ended(_timed(number, call))
        return
    done: set[int] = set()
    attempts = ATTEMPTS
    while True:
        before = len(done), work.moved()
        try:
            with opened(executors) as executor:
                return _run(executor, work, done)
        except _signs_of_death() as error:
            attempts = ATTEMPTS if before != (len(done), work.moved()) else attempts - 1
            if isinstance(executors, Executor) or not attempts:
                why = str(error) or "its executor gave up the task"
                raise WorkerError(f"a worker died: {why}. {work.advice}") from error
        except ModuleNotFoundError as error:
            raise WorkerError(f"a worker lacks {error.name}: install the same packages on all machines") from error


def _signs_of_death() -> tuple[type[BaseException], ...]:
    """Return the errors of executors that have lost workers, that of Dask where it is loaded."""
    dask = sys.modules.get("distributed")
    return (BrokenExecutor, CancelledError, *([] if dask is None else [dask.KilledWorker]))


@contextmanager
def opened(executors: Executors) -> Iterator[Executor]:
    """Give a context with the executor that is given, or with one that is made, and ended with the context."""
    if isinstance(executors, Executor):
        yield executors
        return
    executor = executors()
    try:
        yield executor
    except BaseException:
        _abandon(executor)
        raise
    executor.shutdown()


def _abandon(executor: Executor) -> None:
    """End an executor and its processes, which may never end by themselves."""
    processes = list((getattr(executor, "_processes", None) or {}).values())
    executor.shutdown(wait=False)
    for process in processes:
        process.kill()


def _run(executor: Executor, work: Work, done: set[int]) -> None:
    """Make the calls that are not done, and add each that ends to those that are."""
    waiting: dict[Future[Ended], int] = {}
    try:
        for number, call in enumerate(work.begin()):
            if number not in done:
                waiting[executor.submit(pickle.loads, pickled(_Sent(number, call), f"task {number}"))] = number
        last, since = work.moved(), time.monotonic()
        while waiting:
            ended, _ = wait(waiting, timeout=EVERY, return_when=FIRST_COMPLETED)
            last, before = work.moved(), last
            if ended or last != before:
                since = time.monotonic()
            elif time.monotonic() - since > work.stall_limit:
                raise _stalled(waiting.values(), work)
            # Those that failed come last, so that the others count.
            for future in sorted(ended, key=_failed):
                del waiting[future]
                one = future.result()
                done.add(one.number)
                work.ended(one)
    finally:
        if waiting:
            _stop(waiting, work)


def _failed(future: Future[Ended]) -> bool:
    return future.cancelled() or future.exception() is not None


class _Sent(NamedTuple):
    """A call that is made by being unpickled.

    A worker that lacks a package then fails in the call, as any other call fails. It would otherwise fail while it
    receives the call: a process pool breaks, and a worker of Dask ends without a word.
    """

    number: int
    call: Callable[[], Any]

    def __reduce__(self) -> tuple[Callable[..., Ended], tuple[int, Callable[[], Any], dict[str, str]]]:
        return _checked, (self.number, self.call, worker_versions())


def pickled(value: Any, name: str) -> bytes:
    """Return a pickle for workers.

    Raises
    ------
    WorkerError
        If the value, which the message calls by its name, cannot be pickled.
    """
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        raise WorkerError(f"{name} cannot be sent to workers, because it cannot be pickled: {error}") from error


def _checked(number: int, call: Callable[[], Any], expected: dict[str, str]) -> Ended:
    """Make a call in a worker that has the same versions, because others may give other results."""
    others = differences(expected)
    if others:
        raise WorkerError(
            f"the worker on {platform.node()} has {', '.join(others)}: install the same versions on all machines"
        )
    return _timed(number, call)


def _timed(number: int, call: Callable[[], Any]) -> Ended:
    """Make a call, and note where and for how long."""
    begun = time.perf_counter()
    result = call()
    return Ended(number, result, f"{platform.node()}, process {os.getpid()}", time.perf_counter() - begun)


def _stalled(numbers: Iterable[int], work: Work) -> WorkerError:
    several = ", ".join(map(str, sorted(numbers)))
    return WorkerError(
        f"nothing has moved for {work.stall_limit:g} seconds; tasks {several} have not ended. Look whether the workers "
        f"run, and whether their machines have memory and a free core. {work.advice}. If one step of the work takes "
        "longer, or workers are still to start, give a larger stall_limit="
    )


def _stop(waiting: dict[Future[Ended], int], work: Work) -> None:
    """Let no call begin any more, and wait for those that run to see that they are to stop."""
    work.stop()
    running = [future for future in waiting if not future.cancel()]
    wait(running, timeout=GRACE)


def table_of(rows: Sequence[tuple[str, Ended]]) -> str:
    """Return lines that say what ran where and for how long."""
    names, places = [name for name, _ in rows], [one.where for _, one in rows]
    widths = [max(map(len, column), default=0) for column in (names, places)]
    return "\n".join(f"{name:{widths[0]}}  {one.where:{widths[1]}}  {one.seconds:8.1f} s" for name, one in rows)
