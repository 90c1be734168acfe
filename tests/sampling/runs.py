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

import xarray as xr
from numpy.testing import assert_array_equal

import pmgp

SETTINGS: dict[str, Any] = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "random_seed": 4}
QUIET: dict[str, Any] = {"progressbar": False, "quiet": True}
# What is not stored is computed again, and counted.
COUNTS = {"n_cholesky", "n_inverse", "n_matmul", "warning"}


def differing(one: xr.DataTree, other: xr.DataTree) -> set[str]:
    """Names of what is not the same in two runs, bit for bit."""
    names = set()
    for group in ("posterior", "sample_stats"):
        assert one[group].sizes == other[group].sizes
        assert set(one[group].data_vars) == set(other[group].data_vars)
        for name in set(one[group].data_vars) - COUNTS:
            try:
                assert_array_equal(one[group][name], other[group][name])
            except AssertionError:
                names.add(name)
    return names


def assert_same_run(one: xr.DataTree, other: xr.DataTree) -> None:
    assert differing(one, other) == set()


def killed(run: Callable[[], Any], after: float | None = None) -> None:
    """Make a run in a process of its own, and kill that after some seconds, or let it kill itself."""
    process = multiprocessing.get_context("fork").Process(target=_alone, args=(run,))
    process.start()
    if after is not None:
        time.sleep(after)
        process.kill()
    process.join()
    assert process.exitcode == (0 if after is not None and process.exitcode == 0 else -signal.SIGKILL)


def _alone(run: Callable[[], Any]) -> None:
    logging.disable()
    run()


def kill_at(iteration: int, chain: int) -> Callable[..., None]:
    """A callback of `pymc.sample` that kills the process once an iteration is over."""

    def callback(trace: Any, draw: Any) -> None:
        if (draw.chain, draw.draw_idx) == (chain, iteration):
            os.kill(os.getpid(), signal.SIGKILL)

    return callback


def resumed(folder: Path, model: Any, **settings: Any) -> xr.DataTree:
    return pmgp.resume(folder, model, **QUIET | settings)
