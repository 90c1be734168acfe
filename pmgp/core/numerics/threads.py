"""Limit the threads of BLAS during a computation; the size of the problem sets the limit.

OpenBLAS starts as many threads as the machine has cores. Below a thousand points, a second thread saves a single chain
on an idle machine a quarter of its time. If chains or other programs run side by side, threads that wait for each other
take many times as long as the computation.
"""

from __future__ import annotations

import os
from contextlib import ContextDecorator
from functools import cache
from pathlib import Path
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


@cache
def _libraries() -> tuple[Any, ...]:
    """Return the BLAS libraries of this process: NumPy's and SciPy's usually differ."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


def blas_threads() -> int:
    """Return the number of threads that BLAS uses now: the largest of all libraries."""
    return max((library.num_threads for library in _libraries()), default=1)


class threads_limited(ContextDecorator):  # noqa: N801
    """Limit the number of BLAS threads inside the block, and restore it afterwards.

    `threads`: None changes nothing; `exactly`: also raise the number where it is lower.
    """

    def __init__(self, threads: int | None, *, exactly: bool = False) -> None:
        self._threads, self._exactly = threads, exactly
        self._changed: list[tuple[Any, int]] = []

    def _recreate_cm(self) -> threads_limited:
        """Return a new instance for each call of a decorated function, which may be recursive."""
        return threads_limited(self._threads, exactly=self._exactly)

    def __enter__(self) -> None:
        threads = self._threads
        for library in _libraries() if threads is not None else ():
            number = library.get_num_threads()
            if number > threads or (self._exactly and number < threads):
                self._changed.append((library, number))
                library.set_num_threads(threads)

    def __exit__(self, *error: object) -> None:
        while self._changed:
            library, number = self._changed.pop()
            library.set_num_threads(number)
