"""Small runs that the tests compare, and processes that are killed while they make one."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import xarray as xr
from numpy.testing import assert_array_equal

import pmgp
from tests.posix import requires_posix

SETTINGS: dict[str, Any] = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "random_seed": 4}
QUIET: dict[str, Any] = {"progressbar": False, "quiet": True}
# What is not stored is computed again, and counted; and NUTS records how long it took.
OTHERWISE = {"n_cholesky", "n_inverse", "n_matmul", "perf_counter_diff", "perf_counter_start", "process_time_diff"}


def differing(one: xr.DataTree, other: xr.DataTree) -> set[str]:
    """Names of what is not the same in two runs, bit for bit."""
    names = set()
    for group in ("posterior", "sample_stats"):
        assert one[group].sizes == other[group].sizes
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name in set(one[group].data_vars) - OTHERWISE:
            try:
                assert_array_equal(one[group][name], other[group][name])
            except AssertionError:
                names.add(name)
    return names


def assert_same_run(one: xr.DataTree, other: xr.DataTree) -> None:
    assert differing(one, other) == set()


def killed(run: Callable[[], Any], when: Callable[[], bool] | None = None) -> None:
    """Make a run in a process of its own, and kill that when it is time, or let it kill itself or end before."""
    requires_posix()
    process = multiprocessing.get_context("fork").Process(target=_alone, args=(run,))
    process.start()
    while when is not None and process.is_alive() and not when():
        time.sleep(0.002)
    if when is not None:
        process.kill()
    process.join()
    assert process.exitcode in ((-signal.SIGKILL,) if when is None else (0, -signal.SIGKILL))


def size(folder: Path, chain: int) -> int:
    """Bytes of a chain's draws."""
    path = folder / f"chain-{chain}" / "draws"
    return path.stat().st_size if path.exists() else 0


def is_running(process: int) -> bool:
    """Whether there is such a process, other than as one that nobody has asked for its end yet."""
    try:
        return psutil.Process(process).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _alone(run: Callable[[], Any]) -> None:
    logging.disable()
    run()


def kill_at(iteration: int, chain: int) -> Callable[..., None]:
    """A callback of `pymc.sample` that kills the process once an iteration is over."""

    def callback(trace: Any, draw: Any) -> None:
        if (draw.chain, draw.draw_idx) == (chain, iteration):
            os.kill(os.getpid(), signal.SIGKILL)

    return callback


def kill_when_all_have(iterations: int) -> Callable[..., None]:
    """A callback of `pymc.sample` that kills the process once each of two chains has so many iterations."""
    made: dict[int, int] = {}

    def callback(trace: Any, draw: Any) -> None:
        made[draw.chain] = draw.draw_idx + 1
        if len(made) == 2 and min(made.values()) >= iterations:
            os.kill(os.getpid(), signal.SIGKILL)

    return callback


def resumed(folder: Path, model: Any, **settings: Any) -> xr.DataTree:
    return pmgp.resume(folder, model, **QUIET | settings)
