"""Limit the threads of BLAS during a computation; the size of the problem sets the limit.

OpenBLAS starts as many threads as the machine has cores. Below a thousand points, a second thread saves a single chain
on an idle machine a quarter of its time. If chains or other programs run side by side, threads that wait for each other
take many times as long as the computation.
"""

from __future__ import annotations

import os
import warnings
from contextlib import ContextDecorator
from functools import cache
from pathlib import Path
from threading import Lock, get_ident, local
from typing import Any

from threadpoolctl import ThreadpoolController

# From this many latent values on, a second core is worth its risk: a fit of expectation propagation and a factorization
# of K, alone on two idle cores, took .76 of the time at n = 400, .73 at 700, .63 at 1000 and 1400.
SMALLEST_THREADED = 1000
# Quota of Linux control groups: microseconds of processor time in a period, and the period.
QUOTA = Path("/sys/fs/cgroup/cpu.max")


def suitable_threads(n: int, cores: int | None = None) -> int:
    """Return the number of BLAS threads for a computation with n latent values.

    `cores`: cores that the computation may use; by default all that the process may use.
    """
    if n < SMALLEST_THREADED:
        return 1
    available = available_cores()
    return max(1, available if cores is None else min(cores, available))


def available_cores() -> int:
    """Return the number of cores that this process may use, given its affinity and its container's quota."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(bound, _quota(bound)))


def _quota(default: int) -> int:
    try:
        time, period = QUOTA.read_text().split()
    except (OSError, ValueError):
        return default
    return default if time == "max" else int(time) // int(period)


class _Demands:
    """Numbers of threads that Python's threads ask for: by thread, its number before, and then one for each limit.

    `free` is the number without any of them, and `held` the one that was set last.
    """

    def __init__(self) -> None:
        self.by_thread: dict[int, list[int]] = {}
        self.free = self.held = 0


class _OwnDemands(_Demands, local):
    """Those of one thread."""


class _Library:
    """A BLAS library of this process.

    Its number of threads is one for the whole process, except with OpenMP, where each thread of Python has its own. If
    several threads limit it, the lowest number holds, and the last one to leave restores the number from before.
    """

    def __init__(self, controller: Any) -> None:
        self._controller = controller
        self._warned = False
        self._lock = Lock()
        self._demands = _OwnDemands() if getattr(controller, "threading_layer", "") == "openmp" else _Demands()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin_alone)

    def _begin_alone(self) -> None:
        """Go on in a forked process: other threads, which may have demands or hold the lock, are not there."""
        self._lock, everyone = Lock(), self._demands.by_thread
        self._demands.by_thread = {thread: mine for thread, mine in everyone.items() if thread == get_ident()}

    @property
    def number(self) -> int:
        """The number of threads that the library uses now."""
        return self._controller.get_num_threads()

    def limit(self, threads: int, exactly: bool) -> None:
        """Add a limit of this thread."""
        with self._lock:
            demands, now = self._demands, self.number
            if not demands.by_thread:
                demands.free = demands.held = now
            mine = demands.by_thread.setdefault(get_ident(), [demands.free])
            if now != demands.held:
                # Something else has set it, such as PyMC, which restores it by itself.
                mine[-1] = now
            mine.append(threads if exactly else min(mine[-1], threads))
            self._hold()

    def release(self) -> None:
        """Remove the last limit of this thread."""
        with self._lock:
            mine = self._demands.by_thread[get_ident()]
            if len(mine) > 2:
                mine.pop()
            else:
                del self._demands.by_thread[get_ident()]
            self._hold()

    def _hold(self) -> None:
        demands = self._demands
        demands.held = min((mine[-1] for mine in demands.by_thread.values()), default=demands.free)
        if self.number != demands.held:
            self._set(demands.held)

    def _set(self, threads: int) -> None:
        # Since version 3.8, threadpoolctl silently ignores all threads but the first that set a number, until that one
        # gives this right up or ends.
        clear = getattr(self._controller, "clear_controlling_thread", lambda force: None)
        clear(force=True)
        self._controller.set_num_threads(threads)
        clear(force=True)
        if self.number > threads and not self._warned:
            self._warned = True
            warnings.warn(
                f"BLAS keeps {self.number} threads, and cannot be limited to {threads}: chains may be slow, and differ "
                "by rounding from those of another run. Set OPENBLAS_NUM_THREADS=1, or the variable of the BLAS that "
                "NumPy uses, before Python starts",
                UserWarning,
                stacklevel=5,
            )


@cache
def _libraries() -> tuple[_Library, ...]:
    """Return the BLAS libraries of this process: NumPy's and SciPy's usually differ."""
    return tuple(_Library(found) for found in ThreadpoolController().select(user_api="blas").lib_controllers)


def blas_threads() -> int:
    """Return the number of threads that BLAS uses now: the largest of all libraries."""
    return max((library.number for library in _libraries()), default=1)


class threads_limited(ContextDecorator):  # noqa: N801
    """Limit the number of BLAS threads inside the block, and restore it afterwards.

    `threads`: None changes nothing; `exactly`: also raise the number where it is lower. The limit holds in the whole
    process, and while other threads have lower ones, theirs hold.
    """

    def __init__(self, threads: int | None, *, exactly: bool = False) -> None:
        self._threads, self._exactly = threads, exactly

    def _recreate_cm(self) -> threads_limited:
        """Return a new instance for each call of a decorated function, which may be recursive."""
        return threads_limited(self._threads, exactly=self._exactly)

    def __enter__(self) -> None:
        if self._threads is not None:
            for library in _libraries():
                library.limit(self._threads, self._exactly)

    def __exit__(self, *error: object) -> None:
        if self._threads is not None:
            for library in _libraries():
                library.release()
