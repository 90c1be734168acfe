"""An executor from a user's words: a number of processes on this machine, or the address of a Dask scheduler."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from pmgp.interface.executors.calls import Executors

CONNECTION = 60.0
"""Seconds to wait for a scheduler."""


def executor_of(workers: int | None, cluster: str | None) -> Executors | None:
    """Return a function that makes an executor, or None without words.

    `workers` is a number of processes on this machine, and `cluster` the address of a Dask scheduler, such as
    ``tcp://127.0.0.1:8786``, to which this connects.
    """
    if workers is not None and cluster is not None:
        raise ValueError("give a number of workers on this machine, or the address of a cluster, and not both")
    if cluster is not None:
        return _client(cluster)
    if workers is None:
        return None
    if workers < 1:
        raise ValueError(f"the number of workers must be at least 1, not {workers}")
    return partial(ProcessPoolExecutor, workers, mp_context=get_context("spawn"))


def _client(address: str) -> Executors:
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("a cluster needs Dask: pip install 'pmgp[cluster]'") from error
    return Client(address, timeout=CONNECTION).get_executor
