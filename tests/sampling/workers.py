"""Worker processes that tests halt or kill while they draw."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pmgp.interface.sampling import blocks
from pmgp.interface.sampling.chains import chain_folder
from pmgp.interface.sampling.stored_chain import STATE
from tests.posix import requires_posix

PATIENCE = 120.0
"""Seconds after which a test gives up waiting."""


def forkserver() -> Any:
    """A context whose processes are forked from one that has imported what they need, and has no threads."""
    requires_posix()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pmgp.interface.sampling", "pmgp.interface.steps"])
    return context


def pool(workers: int = 1, **settings: Any) -> ProcessPoolExecutor:
    """Workers of that context."""
    return ProcessPoolExecutor(workers, mp_context=forkserver(), **settings)


def limit_files(size: int = 50_000) -> None:
    """Let files of this process become no larger, as a full disk does."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Pools:
    """A function that makes a pool of one worker each time it is called, and kills the worker of the last."""

    def __init__(self) -> None:
        self.made: list[ProcessPoolExecutor] = []
        self.begun: list[int] = []
        self.killed: list[int] = []

    def __call__(self) -> ProcessPoolExecutor:
        self.made.append(pool())
        self.made[-1].submit(os.getpid)
        self.begun.extend(self.made[-1]._processes)
        return self.made[-1]

    def kill(self) -> None:
        process = until(lambda: next((one for one in self.begun if one not in self.killed), None))
        self.killed.append(process)
        os.kill(process, signal.SIGKILL)


def until[T](found: Callable[[], T]) -> T:
    """Wait until something is there, and return it."""
    deadline = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < deadline, "nothing came"
        time.sleep(0.002)
    return value


def iterations(run: Path) -> int:
    """Iterations of two chains in a run's folder."""
    return sum(by_chain(run))


def by_chain(run: Path) -> list[int]:
    """Iterations of each of two chains in a run's folder."""
    states = [blocks.read(chain_folder(run, number) / STATE) for number in (0, 1)]
    return [0 if state is None else state.number for state in states]


@contextmanager
def killing(run: Path, moments: list[int]) -> Iterator[Pools]:
    """Pools whose worker is killed when the store has so many iterations, and more than at the last kill."""
    pools = Pools()

    def kill() -> None:
        for moment in moments:
            least = max(moment, 1 + (iterations(run) if pools.killed else 0))
            until(lambda least=least: iterations(run) >= least)
            pools.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    yield pools
    thread.join()


def random_moments(kills: int, total: int, seed: int) -> list[int]:
    """Different numbers of iterations in ascending order, all before the last tenth."""
    rng = np.random.default_rng(seed)
    return sorted(1 + int(moment) for moment in rng.choice(9 * total // 10, kills, replace=False))
